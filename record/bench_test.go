package record_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"metier/record"
	"metier/record/recordtest"
)

// BenchmarkAppend reports the median and the 99th percentile next to the mean.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync=%v", sync), func(b *testing.B) {
			dir := b.TempDir()
			blobs, err := record.OpenBlobs(filepath.Join(dir, "blobs"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer blobs.Close()
			l, err := record.OpenFile(filepath.Join(dir, "events.jsonl"), &record.Options{Blobs: blobs})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			head := record.Head{}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if head, err = l.Append(b.Context(), head, recordtest.Entry(fmt.Sprint(i))); err != nil {
					b.Fatal(err)
				}
				if sync {
					if err := l.Sync(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{500, 20_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			blobs, err := record.OpenBlobs(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer blobs.Close()
			data := make([]byte, size)
			for i := 0; b.Loop(); i++ {
				copy(data, fmt.Sprint(i))
				if _, err := blobs.Put(b.Context(), "", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen200 opens, checks and folds a log of 200 entries.
func BenchmarkOpen200(b *testing.B) {
	path := filepath.Join(b.TempDir(), "events.jsonl")
	grow(b, path, 200)
	for b.Loop() {
		l, err := record.OpenFile(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range l.Read(b.Context(), 1) {
			if err != nil {
				b.Fatal(err)
			}
		}
		_ = l.Close()
	}
}

// BenchmarkThousandLogs reports the memory of 1,000 open logs with 200 entries
// each.
func BenchmarkThousandLogs(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var logs []*record.FileLog
		for i := range 1000 {
			logs = append(logs, grow(b, filepath.Join(dir, fmt.Sprint(i)), 200))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-held")
		for _, l := range logs {
			_ = l.Close()
		}
	}
}

func grow(b *testing.B, path string, n uint64) *record.FileLog {
	b.Helper()
	l, err := record.OpenFile(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	head, err := l.Head(b.Context())
	for err == nil && head.Seq < n {
		head, err = l.Append(b.Context(), head, recordtest.Entry(fmt.Sprintf("t%d.c1.some-event", head.Seq)))
	}
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkClean(b *testing.B) {
	var secrets []record.Secret
	for i := range 10 {
		secrets = append(secrets, record.Secret{Name: fmt.Sprint("K", i), Value: fmt.Sprintf("%d-sk-live-%x", i, sha256.Sum256([]byte{byte(i)}))})
	}
	r := record.Redact(nil, secrets...)
	text := []byte(strings.Repeat(`{"text":"A line of a \"result\", with a path /workspace/src/main.go and 50% of more.\n"}`, 12_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Clean(text)
	}
}
