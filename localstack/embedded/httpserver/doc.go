// Package httpserver is an [http.Server] whose clients cannot hold more of it than
// they use: what waits for a client ends when the client makes no progress, and
// what is scarce, connections, is taken from those who use it least.
//
// # Time
//
// Nothing limits how long a request may take: long polls, answers that are streamed
// and large uploads over thin lines go on for as long as they move.
//
//   - A request's header has to be there 10 s after the connection, or after its
//     first byte; a connection without a request is closed after 2 minutes.
//   - While a handler reads the body, each 20 s have to bring 10 KB or its end, which
//     is half a kilobyte a second. How large the body is does not matter.
//   - While an answer is written, each 16 KB have to find room on their way within
//     30 s. A connection's buffer in the kernel is bounded, so that a client that
//     reads nothing is noticed after some hundred kilobytes. An answer that pauses by
//     itself, such as a heartbeat, waits for nobody and is not timed.
//
// # Connections
//
// A server has so many connections at once. Another one is still accepted, and
// takes the place of one that is missed least, in this order:
//
//  1. one whose request does not come, for a second or longer;
//  2. one that is kept alive between two requests;
//  3. one whose request has just not come yet;
//  4. one whose client has held up a body or an answer for two seconds or longer.
//
// Among those of a kind it is one of the address that has most connections of all,
// and of these the one that has waited longest. Only if there is none, all
// connections being at work, an address that has more than twice as many as the
// newcomer's gives up its newest; else the newcomer is answered 503.
//
// So somebody who behaves loses nothing to others: their header comes within a
// round trip, and is never the oldest that is awaited; what they keep alive can be
// opened again. That holds as well where all clients have one address, as behind a
// proxy, and so no address has a limit that others have not, but that an address
// other than loopback has at most half of the connections while there are others'.
package httpserver
