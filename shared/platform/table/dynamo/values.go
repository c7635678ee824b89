package dynamo

import (
	"fmt"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// encode converts a checked value to the SDK's form.
func encode(v table.Value) types.AttributeValue {
	switch v.Kind() {
	case table.String:
		return &types.AttributeValueMemberS{Value: v.Str()}
	case table.Number:
		return &types.AttributeValueMemberN{Value: v.Str()}
	case table.Binary:
		return &types.AttributeValueMemberB{Value: v.Bytes()}
	case table.Bool:
		return &types.AttributeValueMemberBOOL{Value: v.Bool()}
	case table.ListKind:
		list := make([]types.AttributeValue, v.Len())
		for i, m := range v.List() {
			list[i] = encode(m)
		}
		return &types.AttributeValueMemberL{Value: list}
	case table.MapKind:
		return &types.AttributeValueMemberM{Value: encodeItem(v.Map())}
	case table.StringSet:
		return &types.AttributeValueMemberSS{Value: v.Members()}
	case table.NumberSet:
		return &types.AttributeValueMemberNS{Value: v.Members()}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

func encodeItem(item table.Item) map[string]types.AttributeValue {
	out := make(map[string]types.AttributeValue, len(item))
	for name, v := range item {
		out[name] = encode(v)
	}
	return out
}

func encodeKey(k table.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": text(k.PK), "sk": text(k.SK)}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// decode converts the SDK's form to an item, nil to nil.
func decode(attributes map[string]types.AttributeValue) (table.Item, error) {
	if len(attributes) == 0 {
		return nil, nil
	}
	item := make(table.Item, len(attributes))
	for name, a := range attributes {
		v, err := decodeValue(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		item[name] = v
	}
	return item, nil
}

func decodeValue(a types.AttributeValue) (table.Value, error) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return table.V(a.Value), nil
	case *types.AttributeValueMemberN:
		return table.Decimal(a.Value)
	case *types.AttributeValueMemberB:
		return table.V(a.Value), nil
	case *types.AttributeValueMemberBOOL:
		return table.V(a.Value), nil
	case *types.AttributeValueMemberNULL:
		return table.V(nil), nil
	case *types.AttributeValueMemberL:
		list := make([]table.Value, len(a.Value))
		for i, m := range a.Value {
			var err error
			if list[i], err = decodeValue(m); err != nil {
				return table.Value{}, err
			}
		}
		return table.List(list...), nil
	case *types.AttributeValueMemberM:
		m := make(map[string]table.Value, len(a.Value))
		for name, x := range a.Value {
			v, err := decodeValue(x)
			if err != nil {
				return table.Value{}, fmt.Errorf("%s: %w", name, err)
			}
			m[name] = v
		}
		return table.Map(m), nil
	case *types.AttributeValueMemberSS:
		return table.Strings(a.Value), nil
	case *types.AttributeValueMemberNS:
		return table.Numbers(a.Value)
	}
	// A set of binaries, which the service never writes.
	return table.Value{}, fmt.Errorf("%w: %T", table.ErrInvalid, a)
}
