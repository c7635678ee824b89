package expr

import (
	"encoding/json"
	"strconv"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// The root names of expressions.
const (
	varParams  = "params"
	varRun     = "run"
	varVars    = "vars"
	varTasks   = "tasks"
	varSecrets = "secrets"
	varItem    = "item"
	varIndex   = "index"
	varFailed  = "failed"
	varCount   = "failed_count"
)

// environment is created by the first compilation. That takes about a
// millisecond, which a cold start without expressions should not pay.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.CustomTypeAdapter(adapter{}),
		cel.Variable(varParams, object),
		cel.Variable(varRun, object),
		cel.Variable(varVars, object),
		cel.Variable(varTasks, object),
		cel.Variable(varSecrets, object),
		cel.Variable(varItem, cel.DynType),
		cel.Variable(varIndex, cel.IntType),
		cel.Variable(varFailed, cel.ListType(cel.DynType)),
		cel.Variable(varCount, cel.IntType),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Lists(ext.ListsMaxRangeSize(100_000)),
		ext.Math(),
		ext.Sets(),
		ext.Encoders(),
		ext.Bindings(),
		cel.DefaultUTCTimeZone(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.ParserExpressionSizeLimit(MaxSource),
		cel.ExpressionNodeLimit(20_000),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
		),
	)
})

// adapter turns plain JSON into CEL values, lists and objects lazily. A number
// too large for an int64 becomes a uint where it fits, a double otherwise.
type adapter struct{}

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case []any:
		return types.NewDynamicList(a, v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case json.Number:
		return numberValue(v)
	default:
		return types.DefaultTypeAdapter.NativeToValue(v)
	}
}

func numberValue(n json.Number) ref.Val {
	if u, err := strconv.ParseUint(string(n), 10, 64); err == nil {
		return types.Uint(u)
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return types.NewErr("number out of range: %s", n)
	}
	return types.Double(f)
}
