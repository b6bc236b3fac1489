// SPDX-License-Identifier: GPL-2.0-only

package bpshaper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// builder appends attributes. The length of a nested one is known at its end.
type builder struct {
	data []byte
}

func (b *builder) attr(number int, value []byte) {
	b.data = native.AppendUint16(b.data, uint16(4+len(value)))
	b.data = native.AppendUint16(b.data, uint16(number))
	b.data = append(b.data, value...)
	for len(b.data)%4 != 0 {
		b.data = append(b.data, 0)
	}
}

func (b *builder) text(number int, value string) {
	b.attr(number, append([]byte(value), 0))
}

func (b *builder) nest(number int, fill func(*builder)) {
	var inner builder

	fill(&inner)
	b.attr(number|unix.NLA_F_NESTED, inner.data)
}

func putU32(b *builder, number int, value *uint32) {
	if value != nil {
		b.attr(number, native.AppendUint32(nil, *value))
	}
}

func putU64(b *builder, number int, value *uint64) {
	if value != nil {
		b.attr(number, native.AppendUint64(nil, *value))
	}
}

func putBool(b *builder, number int, value *bool) {
	if value == nil {
		return
	}
	n := uint32(0)
	if *value {
		n = 1
	}
	putU32(b, number, &n)
}

func getU32(value []byte) *uint32 {
	if len(value) < 4 {
		return nil
	}
	return To(native.Uint32(value))
}

func getU64(value []byte) *uint64 {
	if len(value) < 8 {
		return nil
	}
	return To(native.Uint64(value))
}

func getBool(value []byte) *bool {
	n := getU32(value)
	if n == nil {
		return nil
	}
	return To(*n != 0)
}

var errAttribute = errors.New("an attribute of the kernel's message is broken")

// attrs calls f for each attribute, without the flags in its number.
func attrs(data []byte, f func(number uint16, value []byte) error) error {
	for len(data) >= 4 {
		length := int(native.Uint16(data))
		if length < 4 || length > len(data) {
			return errAttribute
		}
		if err := f(native.Uint16(data[2:])&0x3fff, data[4:length]); err != nil {
			return err
		}
		data = data[min((length+3)&^3, len(data)):]
	}
	return nil
}

// reader reads a struct that may be shorter than the one it knows: what is not
// there is zero.
type reader struct {
	data []byte
}

func (r *reader) take(size int) []byte {
	if len(r.data) < size {
		r.data = nil
		return make([]byte, size)
	}
	taken := r.data[:size]
	r.data = r.data[size:]
	return taken
}

func (r *reader) skip(size int)  { r.take(size) }
func (r *reader) u16() uint16    { return native.Uint16(r.take(2)) }
func (r *reader) be16() uint16   { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32    { return native.Uint32(r.take(4)) }
func (r *reader) u64() uint64    { return native.Uint64(r.take(8)) }
func (r *reader) bytes(b []byte) { copy(b, r.take(len(b))) }

func (r *reader) histogram(h *Histogram) {
	for i := range h {
		h[i] = r.u64()
	}
}

// differences are options that are not as they should be.
type differences []string

func compare[T comparable](d *differences, name string, want, have *T) {
	switch {
	case want == nil || have != nil && *want == *have:
	case have == nil:
		*d = append(*d, fmt.Sprintf("%s is not set, expected %v", name, *want))
	default:
		*d = append(*d, fmt.Sprintf("%s is %v, expected %v", name, *have, *want))
	}
}

func cString(value []byte) string {
	text, _, _ := strings.Cut(string(value), "\x00")
	return text
}
