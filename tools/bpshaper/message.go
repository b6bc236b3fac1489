// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

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

func (b *builder) u32(number int, value uint32) {
	b.attr(number, native.AppendUint32(nil, value))
}

func (b *builder) nest(number int, fill func(*builder)) {
	var inner builder

	fill(&inner)
	b.attr(number|unix.NLA_F_NESTED, inner.data)
}

// option is a field of Options or ClassOptions: its place in the struct, the
// number of its attribute, and its word.
type option struct {
	field, number int
	word          string
}

// Read once: tags are slow.
var optionFields = map[reflect.Type][]option{
	reflect.TypeFor[Options]():      optionsRead(reflect.TypeFor[Options]()),
	reflect.TypeFor[ClassOptions](): optionsRead(reflect.TypeFor[ClassOptions]()),
}

func optionsRead(options reflect.Type) (list []option) {
	for i := range options.NumField() {
		tag := options.Field(i).Tag
		number, _ := strconv.Atoi(tag.Get("attr"))
		word, _, _ := strings.Cut(tag.Get("json"), ",")
		list = append(list, option{i, number, word})
	}
	return list
}

// eachOption calls f for each field of Options or ClassOptions: the number of
// its attribute, its word, and the pointer that it is.
func eachOption(options any, f func(number int, word string, field reflect.Value)) {
	fields := reflect.ValueOf(options).Elem()
	for _, o := range optionFields[fields.Type()] {
		f(o.number, o.word, fields.Field(o.field))
	}
}

func optionsEncode(options any, b *builder) {
	eachOption(options, func(number int, _ string, field reflect.Value) {
		if field.IsNil() {
			return
		}
		switch value := field.Elem(); value.Kind() {
		case reflect.Uint64:
			b.attr(number, native.AppendUint64(nil, value.Uint()))
		case reflect.Bool:
			b.u32(number, map[bool]uint32{true: 1}[value.Bool()])
		default:
			b.u32(number, uint32(value.Uint()))
		}
	})
}

// optionsDecode leaves out what is unknown or too short.
func optionsDecode(options any, data []byte) error {
	var found [32][]byte

	err := attrs(data, func(number uint16, value []byte) error {
		if int(number) < len(found) {
			found[number] = value
		}
		return nil
	})
	eachOption(options, func(number int, _ string, field reflect.Value) {
		value := found[number]
		switch to := field.Addr().Interface().(type) {
		case **uint64:
			if len(value) >= 8 {
				*to = To(native.Uint64(value))
			}
		case **uint32:
			if len(value) >= 4 {
				*to = To(native.Uint32(value))
			}
		case **bool:
			if len(value) >= 4 {
				*to = To(native.Uint32(value) != 0)
			}
		}
	})
	return err
}

// differences names each option that is set in want, and is another one, or not
// set, in have.
func differences(want, have any) []string {
	var found []string

	has := map[string]reflect.Value{}
	eachOption(have, func(_ int, word string, field reflect.Value) { has[word] = field })
	eachOption(want, func(_ int, word string, field reflect.Value) {
		switch other := has[word]; {
		case field.IsNil() || !other.IsNil() && field.Elem().Equal(other.Elem()):
		case other.IsNil():
			found = append(found, fmt.Sprintf("%s is not set, expected %v", word, field.Elem()))
		default:
			found = append(found, fmt.Sprintf("%s is %v, expected %v", word, other.Elem(),
				field.Elem()))
		}
	})
	return found
}

// Differences names each option that is set in o, and is another one, or not
// set, in have.
func (o *Options) Differences(have *Options) []string { return differences(o, have) }

// Differences does the same for a class.
func (o *ClassOptions) Differences(have *ClassOptions) []string { return differences(o, have) }

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

// reader reads numbers, one after the other: what is not there is zero.
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

func (r *reader) skip(size int) { r.take(size) }
func (r *reader) u32() uint32   { return native.Uint32(r.take(4)) }
func (r *reader) u64() uint64   { return native.Uint64(r.take(8)) }

// statsDecode fills a struct of statistics, which is laid out as that of the
// kernel: the generator refuses a member that would need padding. What the kernel
// does not send is zero.
func statsDecode[S Stats | FlowStats | ClassStats](stats *S, data []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(stats)), unsafe.Sizeof(*stats)), data)
}

func cString(value []byte) string {
	text, _, _ := strings.Cut(string(value), "\x00")
	return text
}
