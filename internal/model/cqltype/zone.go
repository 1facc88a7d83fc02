// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"archive/zip"
	"bytes"
	_ "embed" // embeds zoneinfo.zip
	"io"
	"strings"
	"sync"
	"time"
)

// zoneinfo is the time zone database (public domain). It is a copy of lib/time/zoneinfo.zip in the Go distribution.
// The host's time zone database is not used, because a statement must have the same effect on every node. To update
// the copy, copy the file from a newer Go distribution.
//
//go:embed zoneinfo.zip
var zoneinfo []byte

// abbreviations are the short names that Cassandra resolves as regions. For example, EST in July is daylight saving
// time in New York. Ambiguous names such as IST and BST are omitted.
var abbreviations = func() map[string]string {
	m := map[string]string{}
	for _, line := range strings.Split(`America/New_York: EST EDT
		America/Chicago: CST CDT
		America/Denver: MST MDT
		America/Los_Angeles: PST PDT
		America/Halifax: AST ADT
		America/St_Johns: NST NDT
		America/Juneau: AKST AKDT
		Pacific/Honolulu: HST
		America/Sao_Paulo: BRT BRST
		America/Argentina/Buenos_Aires: ART
		Europe/Paris: CET CEST MET MEST
		Europe/Bucharest: EET EEST
		Atlantic/Canary: WET WEST
		Europe/Moscow: MSK MSD
		Africa/Lagos: WAT
		Africa/Maputo: CAT
		Africa/Nairobi: EAT
		Africa/Johannesburg: SAST
		Asia/Karachi: PKT
		Asia/Bangkok: ICT
		Asia/Jakarta: WIB
		Asia/Singapore: SGT
		Asia/Hong_Kong: HKT
		Asia/Tokyo: JST
		Asia/Seoul: KST
		Australia/Perth: AWST
		Australia/Sydney: AEST AEDT
		Pacific/Auckland: NZST NZDT
		UTC: UT`, "\n") {
		region, names, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, name := range strings.Fields(names) {
			m[name] = region
		}
	}
	return m
}()

// zoneFiles maps names to the files of zoneinfo.
var zoneFiles = sync.OnceValue(func() map[string]*zip.File {
	r, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		panic("cqltype: zoneinfo.zip is damaged: " + err.Error())
	}
	files := map[string]*zip.File{}
	for _, f := range r.File {
		if !f.FileInfo().IsDir() && f.Name != "Factory" {
			files[f.Name] = f
		}
	}
	return files
})

// zones caches loaded locations. It holds at most one location per file in zoneFiles.
var zones sync.Map // maps string to *time.Location

// zoneNamed returns the zone with a name such as Europe/Oslo or EST, or nil. Names are case-sensitive.
func zoneNamed(name string) *time.Location {
	if region, ok := abbreviations[name]; ok {
		name = region
	}
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location)
	}
	f := zoneFiles()[name]
	if f == nil {
		return nil
	}
	r, err := f.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	z, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil
	}
	zones.Store(name, z)
	return z
}
