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

// The bounds of what is read ahead of a list's outputs. A larger output is
// streamed when its turn comes.
const (
	aheadReads = 16      // at once, from the object store
	aheadBytes = 4 << 20 // read, or being read, and not yet written
	aheadMost  = 1 << 20 // of one output
)

// tooLarge is a list of outputs, by its bytes, that no task may be handed.
type tooLarge int64

// Error says what is wrong.
func (n tooLarge) Error() string {
	return fmt.Sprintf("its outputs have %d bytes as a list, at most %d are handed on", int64(n), MaxOutput)
}

// WriteOutputs writes the list of the outputs of a map's instances, which are the
// nodes of a span, in order: null where one did not succeed. It holds a page of
// nodes and what it reads ahead of the object store, a few MB. Errors: tooLarge,
// even where an output cannot be read; those of the table, the store and to.
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

// listed is an output on its way into the list.
type listed struct {
	node engine.Node
	text string // of one that is not in the object store
	ref  string
	size int64
	read func() ([]byte, error) // of one that is read ahead: waits for it
}

// outputList writes outputs one after the other and reads later ones meanwhile.
type outputList struct {
	ctx   context.Context
	blob  blob.Store
	to    *bufio.Writer
	sep   byte
	total int64 // bytes, but for the last bracket
	err   error // the first; sizes are added up all the same

	queue   []*listed // to be written, the first of which is awaited
	held    int64     // bytes of the queue
	pending int       // of the queue, those read ahead
	reads   sync.WaitGroup
}

// add takes the next output. What waits is written as far as needed to stay
// within the bounds.
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

// weight is what an output in the queue takes in memory.
func (o *listed) weight() int64 {
	if o.read != nil {
		return o.size
	}
	return int64(len(o.text))
}

// readAhead begins to read an output.
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
	_ = l.to.WriteByte(l.sep) // an error is told again by what follows
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

// stream writes an output that is too large to be held.
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

// end writes what is left.
func (l *outputList) end() error {
	if l.total+1 > MaxOutput {
		return tooLarge(l.total + 1) // whatever else went wrong: it will be no smaller next time
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
