package manual

import (
	"bytes"
	"fmt"
	"html"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var (
	markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	mark     = regexp.MustCompile(`(?m)^<!-- .* -->\n`)
	broken   = strings.NewReplacer("`<br>`", "` · `") // HTML in Markdown is not rendered
)

// render returns the HTML of a page. read reads a file of the repository.
func render(p page, read func(path string) ([]byte, error)) (string, error) {
	var body bytes.Buffer
	ids := parser.NewContext().IDs() // unique in the page, even if it has several sources
	title := ""
	for _, source := range p.sources {
		data, err := read(source)
		if err != nil {
			return "", err
		}
		data = []byte(broken.Replace(string(mark.ReplaceAll(data, nil))))
		doc := markdown.Parser().Parse(text.NewReader(data), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
		if h, ok := doc.FirstChild().(*ast.Heading); ok && title == "" {
			title = string(h.Lines().Value(data))
		}
		if err := relink(doc, source); err != nil {
			return "", err
		}
		if err := markdown.Renderer().Render(&body, data, doc); err != nil {
			return "", err
		}
	}
	nav := `<a href="../docs">API</a>`
	for _, other := range pages {
		current := ""
		if other.name == p.name {
			current = ` aria-current="page"`
		}
		nav += fmt.Sprintf("\n      <a href=\"%s\"%s>%s</a>", other.name, current, html.EscapeString(other.title))
	}
	return strings.NewReplacer("{{title}}", html.EscapeString(strings.ReplaceAll(title, "`", "")), "{{nav}}", nav, "{{body}}", body.String()).Replace(frame), nil
}

// relink changes links to files of the repository to links to their pages. A
// link to a file without a page is replaced by its text.
func relink(doc ast.Node, source string) error {
	var links []*ast.Link
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	for _, link := range links {
		to, err := url.Parse(string(link.Destination))
		if err != nil {
			return err
		}
		if to.Host != "" || to.Path == "" {
			continue
		}
		file := path.Join(path.Dir(source), to.Path)
		i := slices.IndexFunc(pages, func(p page) bool { return slices.Contains(p.sources, file) })
		if i < 0 {
			unlink(link)
			continue
		}
		to.Path = pages[i].name
		link.Destination = []byte(to.String())
	}
	return nil
}

// unlink replaces a link by its text.
func unlink(link *ast.Link) {
	parent := link.Parent()
	for child := link.FirstChild(); child != nil; {
		next := child.NextSibling()
		parent.InsertBefore(parent, link, child)
		child = next
	}
	parent.RemoveChild(parent, link)
}

// frame is the HTML around each page.
const frame = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <link rel="icon" href="data:,">
    <title>{{title}} - Millrace</title>
    <style>
      body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
      nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding-bottom: .75rem; border-bottom: 1px solid #8886; }
      nav [aria-current] { font-weight: 600; color: inherit; text-decoration: none; }
      h1, h2, h3 { line-height: 1.25; margin: 2rem 0 .75rem; }
      table { display: block; overflow-x: auto; border-collapse: collapse; margin: 1rem 0; }
      th, td { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
      code { font: .9em ui-monospace, monospace; background: #8882; padding: .1em .25em; border-radius: 3px; }
      pre { background: #8882; padding: .75rem 1rem; overflow-x: auto; border-radius: 4px; }
      pre code { background: none; padding: 0; }
    </style>
  </head>
  <body>
    <nav>
      {{nav}}
    </nav>
    <main>
{{body}}    </main>
  </body>
</html>
`
