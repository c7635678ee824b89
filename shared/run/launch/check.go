package launch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

// checkParameters refuses reserved names and too much.
func checkParameters(params map[string]json.RawMessage) error {
	var faults []errs.Detail
	size := 0
	for k, v := range params {
		size += len(k) + len(v) + 4
		if strings.HasPrefix(k, ReservedPrefix) {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("parameters", k),
				Msg: "Parameters that begin with " + ReservedPrefix + " are reserved", Input: k,
			})
		}
	}
	slices.SortFunc(faults, func(a, b errs.Detail) int { return strings.Compare(fmt.Sprint(a.Input), fmt.Sprint(b.Input)) })
	if size > MaxParameters {
		faults = append(faults, errs.Detail{
			Type: "value_error", Loc: errs.Body("parameters"),
			Msg: fmt.Sprintf("Parameters have %d bytes, at most %d are allowed", size, MaxParameters),
		})
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}
