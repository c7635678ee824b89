package bench

import "time"

// pricesOf is the month of the prices below.
const pricesOf = "June 2026"

// pricesIn is the region of the prices below.
const pricesIn = "us-east-1"

// Public on-demand prices in dollars per million, without free tiers and
// discounts.
const (
	priceWriteUnit  = 0.625   // DynamoDB, on demand, standard table class
	priceReadUnit   = 0.125   // DynamoDB, on demand
	priceQueue      = 0.50    // SQS standard queue, 0.40, and 0.10 for messages with a group (fair queues)
	pricePut        = 5.00    // S3 standard, PUT
	priceGet        = 0.40    // S3 standard, GET
	priceEvent      = 1.00    // EventBridge, custom event
	priceAPI        = 3.50    // API Gateway, REST
	priceInvocation = 0.20    // Lambda
	priceGBSecond   = 13.3334 // Lambda, arm64: 0.0000133334 dollars a GB-second
	priceFirewall   = 0.60    // WAF
	priceLogKB      = 0.50    // CloudWatch logs, 0.50 dollars a GB
	priceTransition = 25.00   // Step Functions Standard, state transition
)

// requestTime is the assumed waiting time of a function for a request to
// DynamoDB, SQS, S3 or EventBridge. Within a region they respond in
// single-digit milliseconds. The work of a trivial task itself takes less than
// 0.1 ms.
const requestTime = 5 * time.Millisecond
