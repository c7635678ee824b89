package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"millrace/shared/platform/table"
)

// attributes of an item or a key.
type attributes map[string]struct{ S *string }

// on is what a request, or a part of it, acts on.
type on struct {
	TableName, IndexName      string
	Key, Item                 attributes
	KeyConditionExpression    string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues attributes
}

// dynamoDB reads requests to the table. Each part of a transaction is a call of
// its own operation, and a batch is one call with all its partitions.
func (r *request) dynamoDB() ([]Call, error) {
	switch r.operation {
	case "DescribeTable", "GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query":
		in, err := decode[on](r)
		if err != nil {
			return nil, err
		}
		return r.items(r.operation, in)
	case "BatchGetItem":
		in, err := decode[struct {
			RequestItems map[string]struct{ Keys []attributes }
		}](r)
		return r.batch(maps.Keys(in.RequestItems), func(name string) []on {
			return each(in.RequestItems[name].Keys, func(k attributes) on { return on{Key: k} })
		}, err)
	case "BatchWriteItem":
		in, err := decode[struct {
			RequestItems map[string][]struct{ PutRequest, DeleteRequest on }
		}](r)
		return r.batch(maps.Keys(in.RequestItems), func(name string) []on {
			return each(in.RequestItems[name], func(w struct{ PutRequest, DeleteRequest on }) on {
				return on{Item: w.PutRequest.Item, Key: w.DeleteRequest.Key}
			})
		}, err)
	case "TransactGetItems", "TransactWriteItems":
		in, err := decode[struct{ TransactItems []map[string]on }](r)
		if err != nil {
			return nil, err
		}
		var calls []Call
		for _, item := range in.TransactItems {
			for kind, part := range item {
				action, known := map[string]string{"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}[kind]
				if !known {
					return nil, errUnknown
				}
				made, err := r.items(action, part)
				if err != nil {
					return nil, err
				}
				calls = append(calls, made...)
			}
		}
		return calls, nil
	}
	return nil, errUnknown
}

func each[A, B any](list []A, to func(A) B) []B {
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = to(v)
	}
	return out
}

// items returns the call of an operation on items of a table or an index.
func (r *request) items(operation string, in on) ([]Call, error) {
	call := Call{Action: "dynamodb:" + operation, Resource: r.table(in.TableName)}
	if in.IndexName != "" {
		call.Resource += "/index/" + in.IndexName
	}
	if operation == "DescribeTable" {
		return []Call{call}, nil
	}
	partition, err := in.partition()
	if err != nil {
		return nil, err
	}
	call.Context = Context{leadingKeys: {partition}}
	if operation == "UpdateItem" {
		call.Context[attributeNames] = in.names()
	}
	return []Call{call}, nil
}

// Condition keys of DynamoDB.
const (
	leadingKeys    = "dynamodb:LeadingKeys"
	attributeNames = "dynamodb:Attributes"
)

// names returns the attributes that an update names: those of its key and, by
// placeholders, those of its expressions.
func (in on) names() []string {
	out := slices.AppendSeq(slices.Collect(maps.Keys(in.Key)), maps.Values(in.ExpressionAttributeNames))
	slices.Sort(out)
	return slices.Compact(out)
}

// batch returns a call for each table of a batch.
func (r *request) batch(tables func(func(string) bool), parts func(table string) []on, err error) ([]Call, error) {
	if err != nil {
		return nil, err
	}
	var calls []Call
	for _, name := range slices.Sorted(tables) {
		call := Call{Action: "dynamodb:" + r.operation, Resource: r.table(name), Context: Context{}}
		for _, part := range parts(name) {
			partition, err := part.partition()
			if err != nil {
				return nil, err
			}
			call.Context[leadingKeys] = append(call.Context[leadingKeys], partition)
		}
		calls = append(calls, call)
	}
	return calls, nil
}

func (r *request) table(name string) string {
	if strings.HasPrefix(name, "arn:") {
		return name
	}
	return r.arn("dynamodb", "table/"+name)
}

// equality is a part of a key condition: a partition has no other.
var equality = regexp.MustCompile(`([#A-Za-z0-9_]+)\s*=\s*(:[A-Za-z0-9_]+)`)

// partition returns the partition key's value, which names what is read or
// written.
func (in on) partition() (string, error) {
	if in.KeyConditionExpression != "" {
		return in.queried()
	}
	key := in.Key
	if key == nil {
		key = in.Item
	}
	if v := key["pk"]; v.S != nil {
		return *v.S, nil
	}
	return "", errors.New("the item has no partition key")
}

// queried returns the partition of a query: that of the index, if it reads one.
func (in on) queried() (string, error) {
	attribute := "pk"
	for _, x := range table.Indexes {
		if strings.HasPrefix(in.IndexName, string(x)+"_") {
			attribute, _ = x.Attributes()
		}
	}
	for _, found := range equality.FindAllStringSubmatch(in.KeyConditionExpression, -1) {
		name := found[1]
		if full, is := in.ExpressionAttributeNames[name]; is {
			name = full
		}
		if v := in.ExpressionAttributeValues[found[2]]; name == attribute && v.S != nil {
			return *v.S, nil
		}
	}
	return "", fmt.Errorf("the query %q names no partition", in.KeyConditionExpression)
}

// UnmarshalJSON reads attributes whose values may be of any type.
func (a *attributes) UnmarshalJSON(data []byte) error {
	var read map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*a = attributes{}
	for name, value := range read {
		var text string
		if raw, is := value["S"]; is && json.Unmarshal(raw, &text) == nil {
			(*a)[name] = struct{ S *string }{&text}
		}
	}
	return nil
}
