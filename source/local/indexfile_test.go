package local

import (
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"metier/internal/confine"
)

var (
	fuzzID  = indexID{name: "root\x00options", owner: 7, dev: 9}
	fuzzKey = confine.Key{Ino: 1, Size: 60, Mtime: 2, Ctime: 3}
)

// sample is an index file with a record of each kind.
func sample() []byte {
	records := [][]byte{appendGroup(nil, ".", fuzzKey, []string{"a", "b"}, []string{"link"})}
	for rel, text := range map[string]string{
		"a": "---\nname: a\ndescription: d\nmetadata: {x: [1, {y: null}], z: true}\nalowed-tools: x\n---\n",
		"b": "---\nname: [\n---\n",
	} {
		records = append(records, appendSkill(nil, rel, "SKILL.md", fuzzKey, []byte(text), true))
	}
	sortRecords(records)
	return assemble(records, fuzzID)
}

// seal turns any bytes into a file that passes as complete.
func seal(b []byte) []byte {
	b = append([]byte(nil), b...)
	if len(b) < indexHeader {
		return b
	}
	copy(b, indexMagic)
	le.PutUint64(b[12:], indexFormat)
	le.PutUint32(b[20:], fuzzID.owner)
	le.PutUint64(b[24:], uint64(len(b)))
	le.PutUint64(b[32:], fuzzID.dev)
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli()))
	return b
}

// exhaust reads everything in a file as a scan does, and more.
func exhaust(f *indexFile) (records int) {
	w, room := worker{}, 1<<20
	for i := range f.count {
		record := f.record(i)
		if room -= len(record); room < 0 {
			break // records may overlap; a scan reads one for each existing folder
		}
		f.find(string(relOf(record)), i)
		if len(record) > maxRecord {
			continue
		}
		w.in.rest, w.in.bad = record, false
		w.in.text()
		name, _ := string(w.in.text()), w.in.key()
		if name == "" {
			w.in.names()
			w.in.names()
			continue
		}
		if _, _, ok := w.in.skill(); ok {
			records++
		}
	}
	f.find("", 0)
	f.find("zz", f.count)
	return records
}

// Whatever an index file contains, it is refused or read without harm.
func FuzzIndexFile(f *testing.F) {
	good := sample()
	f.Add(good, false)
	f.Add(good, true)
	f.Add(good[:indexHeader], true)
	f.Add([]byte{}, false)
	f.Add([]byte(strings.Repeat("\xff", 200)), true)
	f.Add(append(good[:len(good):len(good)], strings.Repeat("\x04\x01", 300)...), true)
	for _, at := range []int{40, 44, indexHeader + len(fuzzID.name), len(good) - 40, len(good) - 5} { // count, length, offsets, values
		bad := append([]byte(nil), good...)
		bad[at] ^= 0xff
		f.Add(bad, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = seal(data)
		}
		x, err := readIndex(strings.NewReader(string(data)), int64(len(data)), fuzzID)
		if err == nil {
			exhaust(x)
		}
	})
}

func TestIndexFileKeepsWhatWasRead(t *testing.T) {
	t.Parallel()
	b := sample()
	x, err := readIndex(strings.NewReader(string(b)), int64(len(b)), fuzzID)
	if err != nil || x.count != 3 || exhaust(x) != 2 {
		t.Fatal(err, x)
	}
	record, _ := x.find("a", 0)
	r := reader{rest: record}
	rel, name, k := string(r.text()), string(r.text()), r.key()
	data, whole, ok := r.skill()
	if rel != "a" || name != "SKILL.md" || k != fuzzKey || !ok || !whole || !strings.HasPrefix(string(data), "---\nname: a\n") {
		t.Error(rel, name, k, data, whole, ok)
	}
}

// The header rejects complete files of another owner or of another kind.
func TestIndexFileOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	b := sample()
	for why, change := range map[string]func(id *indexID, b []byte){
		"another user wrote it":                       func(id *indexID, _ []byte) { id.owner++ },
		"the root was in another file system":         func(id *indexID, _ []byte) { id.dev++ },
		"it is about another root, or other settings": func(id *indexID, _ []byte) { id.name += "x" },
		"another version wrote it":                    func(_ *indexID, b []byte) { b[16]++ },
		"it is not an index file":                     func(_ *indexID, b []byte) { b[0]++ },
		"its checksum is wrong":                       func(_ *indexID, b []byte) { b[len(b)-1]++ },
	} {
		id, bad := fuzzID, append([]byte(nil), b...)
		change(&id, bad)
		if _, err := readIndex(strings.NewReader(string(bad)), int64(len(bad)), id); err == nil || err.Error() != why {
			t.Errorf("%v, want %s", err, why)
		}
	}
	if _, err := readIndex(strings.NewReader(string(b)), int64(len(b)-1), fuzzID); err == nil {
		t.Error("took a file that grew")
	}
}

// A ctime must be older than the coarsest clock could make a later one. A ctime
// without fractions of a second may come from a clock with a resolution of one
// or two seconds.
func TestSettled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 500)
	p := &past{start: now}
	for age, want := range map[time.Duration]bool{-time.Hour: false, 0: false, 99 * time.Millisecond: false, 101 * time.Millisecond: true,
		2*time.Second + 500: false, 3*time.Second + 500: true} {
		if got := p.settled(confine.Key{Ctime: now.Add(-age).UnixNano()}); got != want {
			t.Errorf("%v: %t", age, got)
		}
	}
}
