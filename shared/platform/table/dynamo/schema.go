package dynamo

import (
	"strings"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// indexSuffix makes index names of at least the three characters they must have.
const indexSuffix = "_index"

// IndexName is the name of an index of the table in DynamoDB.
func IndexName(x table.Index) string { return string(x) + indexSuffix }

// indexNamed is the index of a name made by IndexName.
func indexNamed(name string) table.Index {
	return table.Index(strings.TrimSuffix(name, indexSuffix))
}

// Schema is the one definition of the table: the request that makes it. Its key
// is pk and sk; each of table.Indexes is an index of its keys alone; it is
// billed by request. What is not part of the request is [TimeToLive].
func Schema(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:            aws.String(name),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: attributes(""),
		KeySchema:            keySchema(""),
	}
	for _, x := range table.Indexes {
		in.AttributeDefinitions = append(in.AttributeDefinitions, attributes(x)...)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(IndexName(x)),
			KeySchema:  keySchema(x),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	return in
}

// TimeToLive is the request that has DynamoDB remove what has expired.
func TimeToLive(name string) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(table.TTLAttribute), Enabled: aws.Bool(true),
		},
	}
}

func keySchema(x table.Index) []types.KeySchemaElement {
	pk, sk := x.Attributes()
	return []types.KeySchemaElement{
		{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
	}
}

func attributes(x table.Index) []types.AttributeDefinition {
	pk, sk := x.Attributes()
	return []types.AttributeDefinition{
		{AttributeName: aws.String(pk), AttributeType: types.ScalarAttributeTypeS},
		{AttributeName: aws.String(sk), AttributeType: types.ScalarAttributeTypeS},
	}
}
