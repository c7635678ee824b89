package audit

import (
	"hash/crc32"
	"strconv"
	"strings"

	"millrace/shared/platform/table"
)

// Shards is the number of partitions for the entries of a workspace, and for
// each list of them. DynamoDB writes 1,000 units a second to a partition. An
// entry costs two in its partition and one in each list, so a workspace can
// write 4,000 a second, even if all are by one actor and of one kind.
const Shards = 8

// frequent are the changes that programs make by the thousand. One list serves
// both their type and their action, which saves a write unit.
var frequent = map[kind]bool{{"run", "create"}: true}

// kind is the kind of a change.
type kind struct{ resourceType, action string }

// list is a list of entries: a partition of an index, or one in each shard.
type list struct {
	index table.Index
	pk    string
}

// in returns the list's partition in a shard.
func (l list) in(shard int) string { return l.pk + "#" + strconv.Itoa(shard) }

// The lists of a workspace. Their keys cannot collide, because only the last
// part is user-given.
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

// Partition returns the partition of a shard of a workspace's entries; its sort
// key is the entry's id. With "*" for org or shard it returns a pattern.
func Partition(org, shard string) string { return org + "#audit#" + shard } //guard:tenant/audit operand 1 ""

// Workspace returns the workspace of a partition of entries. ok is false if the
// partition holds something else.
func Workspace(pk string) (org string, ok bool) {
	org, rest, _ := strings.Cut(pk, "#")
	shard, ok := strings.CutPrefix(rest, "audit#")
	return org, ok && !strings.Contains(shard, "#")
}

// shardOf distributes entries evenly over the shards, by the random part of
// their ids.
func shardOf(id string) int { return int(crc32.ChecksumIEEE([]byte(id)) % Shards) }

// Place sets the entry's keys: one partition of the table and up to four lists.
// They follow from its workspace, its id and its content.
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
