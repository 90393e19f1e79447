// Package drops counts the packets that get lost on their way from the network card to a socket, and
// says where and why, as far as the kernel tells.
//
// All counters are cumulative since they were opened. Read may be called concurrently.
package drops
