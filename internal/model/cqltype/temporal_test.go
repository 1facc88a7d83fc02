// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refused marks a text that Cassandra 5.0.5 rejects.
const refused = "refused"

// TestTimestampTexts compares the results of parsing timestamps with Cassandra 5.0.5. Texts that only Ilion accepts are
// in TestTimestampTextsOfIlion.
func TestTimestampTexts(t *testing.T) {
	check(t, Timestamp, `
		2011-2-3 4:05                      | 1296705900000
		2011-02-03 24:00                   | 1296777600000
		2011-02-03 24:01                   | refused
		2011-02-03 25:00                   | refused
		2011-02-03 04:60                   | refused
		2011-02-03 04:05:60                | refused
		2011-02-31 04:05                   | 1298865900000
		2011-02-31                         | 1298851200000
		2011-02-32                         | refused
		2011-2-3                           | refused
		11-2-3                             | refused
		20110-01-01                        | refused
		10000-01-01                        | refused
		+10000-01-01                       | 253402300800000
		-0001-01-01                        | -62198755200000
		0000-01-01                         | -62167219200000
		2011-002-03                        | refused
		2011-02-03T4:5                     | 1296705900000
		2011-02-03 4:5:6                   | 1296705906000
		2011-02-03 04:05:6.1               | 1296705906100
		2011-02-03 04:05:06.123456789      | 1296705906123
		2011-02-03 04:05:06.1234567890     | refused
		2011-02-03 04:05:06.               | 1296705906000
		2011-02-03 04:05.5                 | refused
		2011-02-03  04:05                  | refused
		2011-02-03 004:05                  | 1296705900000
		2011-02-03t04:05                   | refused
		2011-02-03 04:05:06,5              | refused
		1999999-01-01 00:00:00.000Z        | 63051705244800000
		10000-01-01 00:00:00.000Z          | 253402300800000
		292278994-08-17 07:12:55.807Z      | 9223372036854775807
		292278994-08-17 07:12:55.808Z      | refused
		2011-07-03 04:05:06 +0000          | 1309665906000
		2011-07-03 04:05:06+0000           | 1309665906000
		2011-07-03 04:05:06 +01:00         | 1309662306000
		2011-07-03 04:05:06+01:00          | 1309662306000
		2011-07-03 04:05:06 +01            | 1309662306000
		2011-07-03 04:05:06+01             | 1309662306000
		2011-07-03 04:05:06+1              | refused
		2011-07-03 04:05:06 +1:00          | refused
		2011-07-03 04:05:06 Z              | 1309665906000
		2011-07-03 04:05:06Z               | 1309665906000
		2011-07-03 04:05:06 z              | refused
		2011-07-03 04:05:06 GMT+01:00      | 1309662306000
		2011-07-03 04:05:06GMT+01:00       | refused
		2011-07-03 04:05:06 GMT+1          | refused
		2011-07-03 04:05:06+19:00          | refused
		2011-07-03 04:05:06+18:59          | refused
		2011-07-03 04:05:06 -0530          | 1309685706000
		2011-07-03 04:05:06-053            | refused
		2011-07-03 04:05 +0000             | 1309665900000
		2011-07-03 +0000                   | 1309651200000
		2011-07-03T04:05:06.5 +0000        | 1309665906500
		2011-07-03 Z                       | 1309651200000
		2011-07-03 EST                     | 1309665600000
		2011-07-03T04:05:06.5 EST          | 1309680306500
		2011-07-03+01                      | 1309647600000`)
}

// zoneTexts lists time zone names and their meaning in July 2011 in Cassandra 5.0.5.
const zoneTexts = `
		2011-07-03 04:05:06 GMT                | 1309665906000
		2011-07-03 04:05:06 UTC                | 1309665906000
		2011-07-03 04:05:06 UT                 | 1309665906000
		2011-07-03 04:05:06 EST                | 1309680306000
		2011-07-03 04:05:06 EDT                | 1309680306000
		2011-07-03 04:05:06 MST                | 1309687506000
		2011-07-03 04:05:06 HST                | 1309701906000
		2011-07-03 04:05:06 PST                | 1309691106000
		2011-07-03 04:05:06 PDT                | 1309691106000
		2011-07-03 04:05:06 CET                | 1309658706000
		2011-07-03 04:05:06 CEST               | 1309658706000
		2011-07-03 04:05:06 MSK                | 1309651506000
		2011-07-03 04:05:06 JST                | 1309633506000
		2011-07-03 04:05:06 WET                | 1309662306000
		2011-07-03 04:05:06 EET                | 1309655106000
		2011-07-03 04:05:06 AKST               | 1309694706000
		2011-07-03 04:05:06 AEST               | 1309629906000
		2011-07-03 04:05:06 NZST               | 1309622706000
		2011-07-03 04:05:06 SGT                | 1309637106000
		2011-07-03 04:05:06 ROK                | 1309633506000
		2011-07-03 04:05:06 Europe/Paris       | 1309658706000
		2011-07-03 04:05:06 America/New_York   | 1309680306000
		2011-07-03 04:05:06 US/Pacific         | 1309691106000
		2011-07-03 04:05:06 Asia/Kolkata       | 1309646106000
		2011-07-03 04:05:06 europe/paris       | refused
		2011-07-03 04:05:06 utc                | refused
		2011-07-03 04:05:06 localtime          | refused
		2011-07-03 04:05:06 Local              | refused
		2011-07-03 04:05:06 posixrules         | refused
		2011-07-03 04:05:06 right/UTC          | refused
		2011-07-03 04:05:06 Factory            | refused
		2011-07-03 04:05:06 ../UTC             | refused
		2011-07-03 04:05:06 Europe             | refused
		2011-07-03 04:05:06 Europe/            | refused
		2011-07-03 04:05:06UTC                 | refused
		2011-07-03 04:05:06 CEST5              | refused`

// TestZoneNames checks that time zone names have the same meaning as in Cassandra 5.0.5.
func TestZoneNames(t *testing.T) { check(t, Timestamp, zoneTexts) }

// TestZonesWithoutTheHost checks that time zones do not depend on the host. The results are the same without zone files
// and with another local zone.
func TestZonesWithoutTheHost(t *testing.T) {
	if os.Getenv("TZ") != "Asia/Tokyo" {
		c := exec.Command(os.Args[0], "-test.run=^TestZonesWithoutTheHost$")
		c.Env = append(os.Environ(), "TZ=Asia/Tokyo", "ZONEINFO="+t.TempDir())
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	check(t, Timestamp, zoneTexts)
	for name := range zoneFiles() {
		if zoneNamed(name) == nil {
			t.Errorf("%s cannot be loaded", name)
		}
	}
	for name := range abbreviations {
		if z := zoneNamed(name); z == nil || z == time.Local {
			t.Errorf("%s is %v", name, z)
		}
	}
}

// TestTimestampTextsOfIlion checks texts that only one of Ilion and Cassandra 5.0.5 accepts. Some of these texts
// contain zone names that represent several regions.
func TestTimestampTextsOfIlion(t *testing.T) {
	check(t, Timestamp, `
		+10000-01-01 00:00:00.000Z    | 253402300800000
		-292275055-05-16 16:47:04.192Z | -9223372036854775808
		-292275055-05-16 16:47:04.191Z | refused
		2011-07-03 04:05:06 Etc/GMT-3 | 1309655106000
		2011-07-03 04:05:06 IST       | refused
		2011-07-03 04:05:06 BST       | refused`)
}

// TestTimeTexts compares the results of parsing times with Cassandra 5.0.5.
func TestTimeTexts(t *testing.T) {
	check(t, Time, `
		8:30:00             | 30600000000000
		4:5:6               | 14706000000000
		08:30               | refused
		08:30:00.           | refused
		08:30:00.1          | 30600100000000
		08:30:00.1234567891 | refused
		24:00:00            | refused
		08:60:00            | refused
		008:030:006         | 30606000000000
		8:3:0.000000001     | 28980000000001
		-1:00:00            | refused
		+8:30:00            | 30600000000000
		08.30.00            | refused
		8::3                | refused
		8:30:               | refused
		1:2:3.4.5           | refused`)
	for _, text := range []string{" 08:30:00", "08:30:00 "} {
		if _, err := parseTime(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestInetTexts compares the results of parsing addresses with Cassandra 5.0.5, except for host names.
func TestInetTexts(t *testing.T) {
	for _, line := range lines(`
		010.0.0.1         | 10.0.0.1
		1.2.3             | 1.2.0.3
		1.2               | 1.0.0.2
		1                 | 0.0.0.1
		4294967295        | 255.255.255.255
		4294967296        | refused
		08.1.1.1          | 8.1.1.1
		1.2.3.04          | 1.2.3.4
		256.1.1.1         | refused
		1.2.3.256         | refused
		1.2.65536         | refused
		0x1.2.3.4         | refused
		+1.2.3.4          | refused
		00000000010.1.1.1 | refused
		1.2.3.            | refused
		1..2              | refused
		[::1]             | 0:0:0:0:0:0:0:1
		[1.2.3.4]         | refused
		[::1              | refused
		fe80::1%1         | fe80:0:0:0:0:0:0:1
		::1%lo            | 0:0:0:0:0:0:0:1
		0001::1           | 1:0:0:0:0:0:0:1
		00001::1          | 1:0:0:0:0:0:0:1
		00000::1          | 0:0:0:0:0:0:0:1
		::ffff:1.2.3.4    | 1.2.3.4
		::ffff:010.0.0.1  | 10.0.0.1
		::1.2.3.4         | 0:0:0:0:0:0:102:304
		localhost         | refused`) {
		got := refused
		if wire, ok := parseInet(line[0]); ok {
			got = string(appendInet(nil, wire))
		}
		if got != line[1] {
			t.Errorf("%s is %s, want %s", line[0], got, line[1])
		}
	}
}

// check parses texts of a type and compares the results, which are numbers.
func check(t *testing.T, kind Kind, texts string) {
	t.Helper()
	for _, line := range lines(texts) {
		got := refused
		if wire, err := Native(kind).FromText(line[0]); err == nil {
			got = strconv.FormatInt(signExtend(wire), 10)
		}
		if got != line[1] {
			t.Errorf("%s is %s, want %s", line[0], got, line[1])
		}
	}
}

func lines(texts string) (out [][2]string) {
	for _, line := range strings.Split(strings.TrimSpace(texts), "\n") {
		text, want, _ := strings.Cut(line, "|")
		out = append(out, [2]string{strings.TrimSpace(text), strings.TrimSpace(want)})
	}
	return out
}
