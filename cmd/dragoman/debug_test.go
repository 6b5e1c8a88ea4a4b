package main

import "testing"

func TestE07_DebugIsDecidedByFlagThenEnvironmentThenConfiguration(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name   string
		flag   *bool
		env    string
		config *bool
		want   bool
	}{
		{"nothing said", nil, "", nil, false},
		{"flag wins over environment", &no, "1", &yes, false},
		{"flag alone", &yes, "", nil, true},
		{"environment wins over configuration", nil, "0", &yes, false},
		{"environment alone", nil, "true", nil, true},
		{"configuration alone", nil, "", &yes, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := decideDebug(test.flag, test.env, test.config)
			if err != nil || got != test.want {
				t.Errorf("decideDebug = %v, %v, want %v", got, err, test.want)
			}
		})
	}
	if _, err := decideDebug(nil, "maybe", nil); err == nil {
		t.Error("a variable that is neither yes nor no is accepted")
	}
}
