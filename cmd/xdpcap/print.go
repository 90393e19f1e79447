package main

import (
	"fmt"
	"io"
	"time"
)

type printer struct{ w io.Writer }

func newPrinter(w io.Writer, v int) *printer { return &printer{w} }
func (p *printer) print(t time.Time, d []byte, n int) error {
	_, err := fmt.Fprintf(p.w, "%v %x\n", t, d)
	return err
}
func (p *printer) flush() error { return nil }
