package dynamo

import (
	"strings"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// indexSuffix gives index names the required minimum of three characters.
const indexSuffix = "_index"

// IndexName returns the name of an index in DynamoDB.
func IndexName(x table.Index) string { return string(x) + indexSuffix }

// indexNamed returns the index with a name made by IndexName.
func indexNamed(name string) table.Index {
	return table.Index(strings.TrimSuffix(name, indexSuffix))
}

// Schema returns the request that creates the table, its only definition. The
// key is pk and sk; each of table.Indexes is a keys-only index; billing is per
// request. [TimeToLive] needs a request of its own.
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

// TimeToLive returns the request that makes DynamoDB delete expired items.
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
