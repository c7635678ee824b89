// Package httpserver provides an [http.Server] that clients cannot exhaust:
// waiting for a client ends if the client makes no progress, and connections
// are taken from clients that use them least.
//
// # Time
//
// Requests have no total time limit: long polls, streamed responses and large
// uploads over slow lines may take any time as long as they progress.
//
//   - A request's header must arrive within 10 s of the connection, or of its
//     first byte; a connection without a request is closed after 2 minutes.
//   - While a handler reads the body, 10 KB or the end of the body must arrive
//     every 20 s, which is half a kilobyte a second, whatever the body's size.
//   - While a response is written, the client must accept each 16 KB within 30 s.
//     A connection's buffer in the kernel is bounded, so that a client that reads
//     nothing is detected after some hundred kilobytes. Pauses of the handler, as
//     between heartbeats, do not count.
//   - Responses are written in turns of 16 KB, so that a thousand large ones do
//     not delay small ones.
//
// # Connections
//
// The number of concurrent connections is limited. At the limit, a new
// connection is still accepted and replaces an existing one, chosen in this
// order:
//
//  1. one whose request has not arrived for a second or longer;
//  2. one that is idle between two requests;
//  3. one whose request has not arrived for less than a second;
//  4. one whose client has delayed a body or a response for two seconds or longer.
//
// Within a category it is one of the address with the most connections in
// total, and among these the one that has waited longest. If all connections
// are busy, an address with more than twice as many as the newcomer's loses its
// newest; otherwise the newcomer is answered 503.
//
// Well-behaved clients therefore lose nothing to others: their header arrives
// within a round trip and is never the oldest awaited one, and an idle
// connection can be reopened. This also holds if all clients share one address,
// as behind a proxy. Addresses have no other limit, except that an address
// other than loopback has at most half of the connections while others have
// any.
package httpserver
