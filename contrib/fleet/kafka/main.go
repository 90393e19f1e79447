// Kafka is a broker of Kafka's protocol with one topic, for fleet.sh, which then needs no cluster.
// It keeps messages in memory only.
//
//	kafka ADDRESS:PORT TOPIC PARTITIONS GROUP
//
// Whenever the consumer group changes, it prints the group's state, the number of its members, and
// how many messages they have committed. A message that comes before all members have joined and
// the group is Stable may be consumed twice.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("the arguments must be ADDRESS:PORT TOPIC PARTITIONS GROUP, not %q", args)
	}
	address, topic, group := args[0], args[1], args[3]
	partitions, err := strconv.ParseInt(args[2], 10, 32)
	if err != nil {
		return fmt.Errorf("read the number of partitions: %w", err)
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.SeedTopics(int32(partitions), topic),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, address) }),
	)
	if err != nil {
		return fmt.Errorf("serve %s: %w", address, err)
	}
	defer cluster.Close()
	fmt.Println("listening on", address)
	for last := ""; ; {
		_, err := cluster.WaitGroupInfo(context.Background(), group, func(g *kfake.GroupInfo) bool {
			before := last
			last = describe(g, topic)
			return last != before
		})
		if err != nil {
			return fmt.Errorf("follow the group %s: %w", group, err)
		}
		fmt.Println(last)
	}
}

// describe returns the state of a group; "" = it does not exist.
func describe(g *kfake.GroupInfo, topic string) string {
	if g == nil {
		return ""
	}
	var taken int64
	for _, commit := range g.Commits[topic] {
		taken += commit.Offset
	}
	return fmt.Sprintf("%s: %s, %d members, %d messages taken", g.Group, g.State, len(g.Members), taken)
}
