package job

import "testing"

func TestKnownStatus(t *testing.T) {
	known := map[int32]bool{}
	for _, n := range []int32{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
		30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46,
		50, 51, 52, 53, 54, 55, 56, 57, 60, 61, 62, 63, 64, 70, 71, 72, 73, 100,
	} {
		known[n] = true
	}
	for n := int32(-200); n <= 300; n++ {
		if _, got := KnownStatus(n); got != known[n] {
			t.Errorf("KnownStatus(%d) says known %v", n, got)
		}
	}
	for n, want := range map[int32]string{
		0: "OK", 3: "NOT_IMPLEMENTED_ERROR", 73: "NOT_MASTER", 11: "STATUS_11", 999: "STATUS_999", -1: "STATUS_-1",
	} {
		if got, _ := KnownStatus(n); got != want {
			t.Errorf("KnownStatus(%d) = %q, want %q", n, got, want)
		}
	}
	for n := range statusNames {
		if _, ok := KnownStatus(n); !ok {
			t.Errorf("the named status %d counts as unknown", n)
		}
	}
}
