package main

import "testing"

func TestVersionsAreThoseOfTheTagOrOfWhatComesNext(t *testing.T) {
	for _, c := range []struct {
		described   string
		dirty       bool
		npm, python string
	}{
		{"v1.2.3-0-gabc", false, "1.2.3", "1.2.3"},
		{"v1.2.3-rc.4-0-gabc", false, "1.2.3-rc.4", "1.2.3rc4"},
		{"v1.2.3-beta.1-0-gabc", false, "1.2.3-beta.1", "1.2.3b1"},
		{"v1.2.3-7-gabc", false, "1.2.4-dev.7.gabc", "1.2.4.dev7+gabc"},
		{"v1.2.9-7-gabc", true, "1.2.10-dev.7.gabc.dirty", "1.2.10.dev7+gabc.dirty"},
		{"v1.2.3-rc.4-7-gabc", false, "1.2.3-rc.4.dev.7.gabc", "1.2.3rc4.post7+gabc"},
		{"v1.2.3-0-gabc", true, "1.2.3-dirty", "1.2.3+dirty"},
		{"0123456789ab", false, "0.7.0-dev.42.g0123456789ab", "0.7.0.dev42+g0123456789ab"},
	} {
		v, err := versionOf(c.described, "42", "0.7.0-dev")
		v.dirty = c.dirty
		if err != nil || v.String() != c.npm || v.python() != c.python {
			t.Errorf("%s is %s and %s, %v; want %s and %s", c.described, v, v.python(), err, c.npm, c.python)
		}
	}
	if v, err := versionOf("v1.2-0-gabc", "42", "0.7.0-dev"); err == nil {
		t.Errorf("a tag that is no version makes %s", v)
	}
}

func TestTimeOfAReleaseIsWhatIsSaid(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if _, made, err := describeTree(t.Context()); err != nil || made.Unix() != 1700000000 {
		t.Errorf("the time is %v, %v", made, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "0") // which no zip file can say
	if _, made, err := describeTree(t.Context()); err != nil || made != oldest {
		t.Errorf("the time is %v, %v", made, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, _, err := describeTree(t.Context()); err == nil {
		t.Error("yesterday is a time")
	}
}
