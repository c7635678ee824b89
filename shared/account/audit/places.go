package audit

import (
	"hash/crc32"
	"strconv"
	"strings"

	"millrace/shared/platform/table"
)

// Shards is how many partitions share the entries of a workspace, and each list
// of them. DynamoDB writes a partition 1,000 units a second; an entry costs two in
// its partition and one in each list, so that a workspace can make 4,000 a
// second, all by one actor and of one kind.
const Shards = 8

// frequent are the changes that programs make by the thousand. They stand in one
// list for their type and their action together, and so cost a write unit less.
var frequent = map[kind]bool{{"run", "create"}: true}

// kind is what a change is in general.
type kind struct{ resourceType, action string }

// list is one list of entries: a partition of an index, or one in each shard.
type list struct {
	index table.Index
	pk    string
}

// in is the list's partition in a shard.
func (l list) in(shard int) string { return l.pk + "#" + strconv.Itoa(shard) }

// The lists of a workspace. Their keys are apart from each other: none but the
// last part is a user's text.
func ofResource(org, resourceType, id string) list {
	return list{table.ByList, org + "#audit#" + cut(resourceType, maxName) + "#" + cut(id, maxID)}
}

func ofActor(org, actor string) list {
	return list{table.ByFlow, org + "#audit#" + cut(actor, maxName)}
}

func ofType(org, resourceType string) list {
	return list{table.ByEnv, org + "#audit#" + cut(resourceType, maxName)}
}

func ofKind(org string, k kind) list {
	return list{table.ByEnv, org + "#audit##" + k.resourceType + "#" + k.action}
}

func ofAction(org, action string) list {
	return list{table.ByBoth, org + "#audit#" + cut(action, maxName)}
}

// Partition is a shard of the partition of a workspace's entries; its sort key is
// the entry's id. A pattern for org or shard "*" gives a pattern.
func Partition(org, shard string) string { return org + "#audit#" + shard } //guard:tenant/audit operand 1 ""

// Workspace returns the workspace whose entries stand in a partition of the
// table, false if it is a partition of something else.
func Workspace(pk string) (org string, ok bool) {
	org, rest, _ := strings.Cut(pk, "#")
	shard, ok := strings.CutPrefix(rest, "audit#")
	return org, ok && !strings.Contains(shard, "#")
}

// shardOf spreads entries evenly over the shards, by what is random in their ids.
func shardOf(id string) int { return int(crc32.ChecksumIEEE([]byte(id)) % Shards) }

// Place gives the entry the keys by which it is found, which follow from its
// workspace, its id and what it tells: one partition of the table and up to
// four lists.
func (r *Record) Place() {
	shard := shardOf(r.ID())
	r.PK = Partition(r.OrgID, strconv.Itoa(shard))
	r.ListEntries = table.ListEntries{L1PK: ofResource(r.OrgID, r.ResourceType, r.ResourceID).pk, L1SK: r.ID()}
	if r.ActorEmail != "" {
		r.L2PK, r.L2SK = ofActor(r.OrgID, r.ActorEmail).in(shard), r.ID()
	}
	if k := (kind{r.ResourceType, r.Action}); frequent[k] {
		r.L3PK, r.L3SK = ofKind(r.OrgID, k).in(shard), r.ID()
		return
	}
	r.L3PK, r.L3SK = ofType(r.OrgID, r.ResourceType).in(shard), r.ID()
	r.L4PK, r.L4SK = ofAction(r.OrgID, r.Action).in(shard), r.ID()
}
