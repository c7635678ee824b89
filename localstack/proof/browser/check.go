package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// stepPatience is the timeout of a step.
const stepPatience = time.Minute

// tab is a page of the browser, with the errors that it reported.
type tab struct {
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// check signs in and approves devices, in permitted and in forbidden ways.
func (w *world) check(ctx context.Context, program string) error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot use
	}
	allocator, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	page, cancel := chromedp.NewContext(allocator)
	defer cancel()
	t := &tab{ctx: page}
	chromedp.ListenTarget(page, t.listen)
	if err := chromedp.Run(page); err != nil {
		return fmt.Errorf("start %s: %w (apt-get install chromium, or make browser CHROMIUM=path)", program, err)
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, *tab) error
	}{
		{"a user signs in and approves a device", w.approves},
		{"a wrong code is told, and may be corrected", w.corrects},
		{"a user of two workspaces chooses one", w.chooses},
		{"a one-time code that is wrong signs nobody in", w.wrongOneTimeCode},
		{"an answer that this page did not ask for is refused", w.forgedAnswer},
		{"another name of the server leads to the right one", w.otherName},
	} {
		began := time.Now()
		if err := step.do(ctx, t); err != nil {
			return fmt.Errorf("%s: %w\n%s", step.name, err, strings.Join(t.reported(), "\n"))
		}
		fmt.Printf("%6.1f s  %s\n", time.Since(began).Seconds(), step.name)
	}
	return nil
}

// listen records exceptions, and errors such as loads that the policy blocks.
func (t *tab) listen(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		t.faults = append(t.faults, event.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		if event.Entry.Level == log.LevelError {
			t.faults = append(t.faults, event.Entry.Text+" "+event.Entry.URL)
		}
	}
}

func (t *tab) reported() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.faults
	t.faults = nil
	return out
}

// run runs actions within the timeout of a step.
func (t *tab) run(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(t.ctx, stepPatience)
	defer cancel()
	err := chromedp.Run(ctx, actions...)
	if err != nil {
		var address, text string
		_ = chromedp.Run(t.ctx, chromedp.Location(&address), chromedp.Evaluate(`document.body.innerText`, &text))
		err = fmt.Errorf("%w; the page %s reads: %s", err, address, text)
	}
	return err
}

// shows waits until an element is visible and contains a text.
func (t *tab) shows(id, text string) error {
	err := t.run(until(fmt.Sprintf(`((e) => e !== null && !e.hidden && e.textContent.includes(%q))(document.getElementById(%q))`, text, id)))
	if err != nil {
		return fmt.Errorf("%s does not show %q: %w", id, text, err)
	}
	return nil
}

// until waits until an expression is true. chromedp.Poll would evaluate it in
// the page, whose policy allows no eval.
func until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for {
			var ok bool
			// An error means that the page is being replaced by the next one.
			if err := chromedp.Evaluate(expression, &ok).Do(ctx); err == nil && ok {
				return nil
			}
			if err := chromedp.Sleep(20 * time.Millisecond).Do(ctx); err != nil {
				return err
			}
		}
	})
}

// element is an expression for the element with an id.
func element(id string) string { return fmt.Sprintf("document.getElementById(%q)", id) }

// visible waits until an element is visible.
func visible(id string) chromedp.Action {
	return until(element(id) + ".checkVisibility()")
}

func click(id string) chromedp.Action { return chromedp.Evaluate(element(id)+".click()", nil) }

// write types a text into an input, replacing its content.
func write(id, text string) chromedp.Action {
	return chromedp.Tasks{chromedp.Evaluate(element(id)+".focus(); "+element(id)+".select()", nil), chromedp.KeyEvent(text)}
}

// choose selects an option of a list.
func choose(id, value string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf("%s.value = %q", element(id), value), nil)
}

// signIn opens the page and signs in with the one-time code that the server
// shows, until the page asks for the device's code.
func (w *world) signIn(ctx context.Context, t *tab) error {
	if err := t.run(chromedp.Navigate(w.BaseURL+"/cli-callback"), visible("sign-in"), click("sign-in"), visible("email")); err != nil {
		return err
	}
	var code string
	select {
	case code = <-w.codes:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := t.run(write("code", code), write("email", w.Email), chromedp.KeyEvent("\r")); err != nil {
		return err
	}
	if err := t.shows("approval", w.Email); err != nil {
		return err
	}
	return w.nothingLeft(t)
}

// nothingLeft checks that no credential is in the address or stored.
func (w *world) nothingLeft(t *tab) error {
	var left string
	err := t.run(chromedp.Evaluate(`JSON.stringify([location.href, localStorage.length, sessionStorage.length, document.cookie])`, &left))
	if want := `["` + w.BaseURL + `/cli-callback",0,0,""]`; err == nil && left != want {
		return fmt.Errorf("the browser keeps %s, want %s", left, want)
	}
	return err
}

// clean checks that the browser reported no error.
func (t *tab) clean() error {
	if faults := t.reported(); len(faults) > 0 {
		return fmt.Errorf("the browser reports %s", strings.Join(faults, "; "))
	}
	return nil
}

func (w *world) approves(ctx context.Context, t *tab) error {
	device, code, err := w.start(ctx)
	if err != nil {
		return err
	}
	if err := w.signIn(ctx, t); err != nil {
		return err
	}
	if err := t.run(write("code", code[:4]+" "+code[4:]), click("approve")); err != nil {
		return err
	}
	if err := t.shows("done", "as "+w.Email); err != nil {
		return err
	}
	org, err := w.redeem(ctx, device)
	if err == nil && org != w.OrgID {
		err = fmt.Errorf("the device is in the workspace %q", org)
	}
	if err != nil {
		return err
	}
	if err := w.nothingLeft(t); err != nil {
		return err
	}
	return t.clean()
}

func (w *world) corrects(ctx context.Context, t *tab) error {
	device, code, err := w.start(ctx)
	if err != nil {
		return err
	}
	if err := w.signIn(ctx, t); err != nil {
		return err
	}
	wrong := "00000000"
	if code == wrong {
		wrong = "11111111"
	}
	for typed, want := range map[string]string{"1234": "eight digits", wrong: "no device authorization"} {
		if err := t.run(write("code", typed), click("approve")); err != nil {
			return err
		}
		if err := t.shows("fault", want); err != nil {
			return err
		}
	}
	t.reported() // the browser logs the 404 as an error
	if err := t.run(write("code", code), click("approve")); err != nil {
		return err
	}
	if err := t.shows("done", "signed in"); err != nil {
		return err
	}
	if _, err := w.redeem(ctx, device); err != nil {
		return err
	}
	return t.clean()
}

func (w *world) chooses(ctx context.Context, t *tab) error {
	second, err := w.workspace(ctx, `Second <b>"quoted"</b>`)
	if err != nil {
		return err
	}
	device, code, err := w.start(ctx)
	if err != nil {
		return err
	}
	if err := w.signIn(ctx, t); err != nil {
		return err
	}
	if err := t.run(visible("workspace"), choose("workspace", second), write("code", code), click("approve")); err != nil {
		return err
	}
	if err := t.shows("done", `Second <b>"quoted"</b>`); err != nil {
		return err
	}
	org, err := w.redeem(ctx, device)
	if err == nil && org != second {
		err = fmt.Errorf("the device is in the workspace %q, not the chosen one", org)
	}
	if err != nil {
		return err
	}
	return t.clean()
}

func (w *world) wrongOneTimeCode(ctx context.Context, t *tab) error {
	if err := t.run(chromedp.Navigate(w.BaseURL+"/cli-callback"), visible("sign-in"), click("sign-in"), visible("email"), write("code", "BBBB-BBBB"), chromedp.KeyEvent("\r"), until(`document.querySelector("[role=alert]") !== null`)); err != nil {
		return err
	}
	var text string
	if err := t.run(chromedp.Evaluate(`document.querySelector("[role=alert]").textContent`, &text)); err != nil {
		return err
	}
	if !strings.Contains(text, "not the code") {
		return fmt.Errorf("the page says %q", text)
	}
	t.reported() // the browser logs the 403 as an error
	select {
	case <-w.codes:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (w *world) forgedAnswer(_ context.Context, t *tab) error {
	if err := t.run(chromedp.Navigate(w.BaseURL + "/cli-callback?code=stolen&state=forged")); err != nil {
		return err
	}
	if err := t.shows("fault", "not begun in this page"); err != nil {
		return err
	}
	if err := w.nothingLeft(t); err != nil {
		return err
	}
	return t.clean()
}

func (w *world) otherName(_ context.Context, t *tab) error {
	other := strings.Replace(w.BaseURL, "127.0.0.1", "localhost", 1)
	if err := t.run(chromedp.Navigate(other+"/cli-callback"), until(fmt.Sprintf("location.origin === %q", w.BaseURL))); err != nil {
		return err
	}
	return t.shows("start", "Sign in")
}
