package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// Limits of reading a list's outputs ahead. A larger output is streamed in its
// turn.
const (
	aheadReads = 16      // concurrent reads of the object store
	aheadBytes = 4 << 20 // read or being read, and not yet written
	aheadMost  = 1 << 20 // of one output
)

// tooLarge is the error of a list of outputs that no task can take. Its value
// is the size in bytes.
type tooLarge int64

// Error implements error.
func (n tooLarge) Error() string {
	return fmt.Sprintf("its outputs have %d bytes as a list, at most %d are handed on", int64(n), MaxOutput)
}

// WriteOutputs writes the list of the outputs of a map's instances, which are
// the nodes of a span, in order: null for those that did not succeed. It uses a
// few MB of memory: a page of nodes and the outputs that it reads ahead.
// Errors: tooLarge, even if an output cannot be read; those of the table, the
// store and to.
func WriteOutputs(ctx context.Context, t table.Table, b blob.Store, org, run string, instances runstate.Span, to io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &outputList{ctx: ctx, blob: b, to: bufio.NewWriterSize(to, 64<<10), sep: '['}
	defer l.reads.Wait()
	defer cancel()
	next := instances.From
	missing := func(end engine.Node) {
		for ; next < end; next++ {
			l.add(&listed{node: next, text: "null"})
		}
	}
	only := runstate.Only(runstate.NodeStatus, runstate.NodeCarried, runstate.NodeOutput, runstate.NodeOutputRef, runstate.NodeOutSize)
	for item, err := range runstate.SpanNodes(ctx, t, org, run, instances, only) {
		if err != nil {
			return err
		}
		missing(item.Number())
		next++
		out := &listed{node: item.Number(), text: "null"}
		switch {
		case item.Outcome() != engine.OutcomeOK: //guard:map/null false
		case item.OutputRef != "":
			out.ref, out.size = item.OutputRef, item.OutputSize
		default:
			out.text = item.Output
		}
		l.add(out)
	}
	missing(instances.To)
	return l.end()
}

// listed is an output to be written to the list.
type listed struct {
	node engine.Node
	text string // if it is not in the object store
	ref  string
	size int64
	read func() ([]byte, error) // waits for an output that is read ahead
}

// outputList writes outputs one after the other and meanwhile reads later ones.
type outputList struct {
	ctx   context.Context
	blob  blob.Store
	to    *bufio.Writer
	sep   byte
	total int64 // bytes, without the closing bracket
	err   error // the first; sizes are summed nevertheless

	queue   []*listed // to be written; the first is awaited
	held    int64     // bytes of the queue
	pending int       // number of those in the queue that are read ahead
	reads   sync.WaitGroup
}

// add adds an output. It writes queued outputs until the limits are met.
func (l *outputList) add(out *listed) {
	bytes := int64(len(out.text))
	if out.ref != "" {
		bytes = out.size
	}
	l.total += 1 + bytes
	if l.err != nil || l.total+1 > MaxOutput {
		return
	}
	if out.ref != "" && out.size <= aheadMost {
		l.readAhead(out)
		l.pending++
	}
	l.queue = append(l.queue, out)
	l.held += out.weight()
	//guard:map/ahead false
	for l.err == nil && len(l.queue) > 0 && (l.held > aheadBytes || l.pending == aheadReads || l.queue[0].ref == "") {
		l.write()
	}
}

// weight returns the memory that a queued output takes.
func (o *listed) weight() int64 {
	if o.read != nil {
		return o.size
	}
	return int64(len(o.text))
}

// readAhead starts to read an output.
func (l *outputList) readAhead(out *listed) {
	var data []byte
	var err error
	done := make(chan struct{})
	l.reads.Go(func() {
		defer close(done)
		data, _, err = blob.GetBytes(l.ctx, l.blob, out.ref, out.size)
	})
	out.read = func() ([]byte, error) {
		<-done
		return data, err
	}
}

// write writes the first output of the queue.
func (l *outputList) write() {
	out := l.queue[0]
	l.queue = l.queue[1:]
	l.held -= out.weight()
	_ = l.to.WriteByte(l.sep) // later calls return the error again
	l.sep = ','
	var err error
	switch {
	case out.read != nil:
		l.pending--
		var data []byte
		if data, err = out.read(); err == nil {
			_, err = l.to.Write(data)
		}
	case out.ref != "":
		err = l.stream(out)
	default:
		_, err = l.to.WriteString(out.text)
	}
	if err != nil {
		l.err = fmt.Errorf("output of node %d: %w", out.node, err)
	}
}

// stream writes an output that is too large for memory.
func (l *outputList) stream(out *listed) error {
	body, obj, err := l.blob.Get(l.ctx, out.ref, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if obj.Size != out.size {
		return fmt.Errorf("%w: %d bytes, not %d", blob.ErrSize, obj.Size, out.size)
	}
	_, err = io.Copy(l.to, body)
	return err
}

// end writes the rest.
func (l *outputList) end() error {
	if l.total+1 > MaxOutput {
		return tooLarge(l.total + 1) // whatever other errors there were: it will not be smaller next time
	}
	for len(l.queue) > 0 && l.err == nil {
		l.write()
	}
	if l.err != nil {
		return l.err
	}
	_ = l.to.WriteByte(']')
	return l.to.Flush()
}
