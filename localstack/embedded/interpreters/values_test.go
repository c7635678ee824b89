//go:build unix

package interpreters_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/sandbox"
)

const typedSource = `
import dataclasses, datetime, decimal, enum, math, pathlib, uuid

class Color(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Row:
    day: datetime.date
    price: decimal.Decimal

def make():
    return {
        "row": Row(datetime.date(2026, 1, 2), decimal.Decimal("1.10")), "color": Color.RED, "id": uuid.UUID(int=7),
        "path": pathlib.PurePosixPath("a/b"), "bytes": b"\x00\xff", "tags": {2, 1}, "nan": math.nan,
    }

def take(row: Row, color: Color, day: "datetime.date | None", nan: float):
    return [type(row).__name__, row.day.isoformat(), str(row.price + 1), color.name, day.year, math.isnan(nan)]
`

// TestValuesAreConvertedToJSONAndBack checks that values that JSON does not
// have are converted, and converted back according to the annotation of the
// argument that takes them.
func TestValuesAreConvertedToJSONAndBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	made, log := r.run(t, r.request(t, typedSource, "make"))
	require.Nil(t, made.Failure)
	assert.JSONEq(t, `{
		"row": {"day": "2026-01-02", "price": "1.10"}, "color": "red", "id": "00000000-0000-0000-0000-000000000007",
		"path": "a/b", "bytes": "AP8=", "tags": [1, 2], "nan": null}`, string(made.Output))
	assert.Contains(t, log.text(), "the output.nan: NaN became null")

	req := r.request(t, typedSource, "take")
	req.Inputs = map[string]sandbox.Input{"row": {Value: json.RawMessage(`{"day": "2026-01-02", "price": "1.10"}`)}, "color": {Value: json.RawMessage(`"red"`)}}
	req.Params = map[string]json.RawMessage{"day": json.RawMessage(`"2026-01-02"`), "nan": json.RawMessage("null")}
	taken, _ := r.run(t, req)
	require.Nil(t, taken.Failure)
	assert.JSONEq(t, `["Row", "2026-01-02", "2.10", "RED", 2026, true]`, string(taken.Output))

	req.Params["day"] = json.RawMessage(`"monday"`)
	refused, log := r.run(t, req)
	require.NotNil(t, refused.Failure)
	assert.Contains(t, refused.Failure.Message, "task 'the-task': the argument 'day' is 'monday', which is no date")
	assert.NotContains(t, log.text(), "Traceback")
}
