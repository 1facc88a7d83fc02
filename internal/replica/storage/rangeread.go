// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// readRange reads the partitions of a token range.
func (rd *reader) readRange() error {
	rd.rangeBounds()
	if rd.r.AfterKey != nil {
		rd.seek = keys.AppendPartition(rd.seek[:0], rd.r.Table, rd.r.AfterToken, rd.r.AfterKey)
		if rd.r.AfterPartition {
			rd.seek = append(rd.seek, 0xff)
		}
		if bytes.Compare(rd.seek, rd.lower) > 0 {
			rd.lower = append(rd.lower[:0], rd.seek...)
		}
	}
	if rd.upper != nil && bytes.Compare(rd.lower, rd.upper) >= 0 {
		return nil
	}
	if err := rd.open(); err != nil {
		return err
	}
	for valid := rd.it.First(); valid; valid = rd.leave() {
		step, err := rd.visitCurrent()
		if err == nil && step != command.Stop {
			step, err = rd.passed()
		}
		if err != nil || step == command.Stop {
			return err
		}
	}
	return rd.it.Error()
}

func (rd *reader) rangeBounds() {
	span := keys.TokenSpan(rd.r.Table, rd.r.Range)
	rd.lower = append(keys.AppendTable(rd.lower[:0], rd.r.Table), span.Begin...)
	rd.upper = keys.AppendTable(rd.upper[:0], rd.r.Table)
	if len(span.End) > 0 {
		rd.upper = append(rd.upper, span.End...)
	} else {
		rd.upper = keys.After(rd.upper)
	}
}

// passedEvery is the number of keys without a result after which a range read reports its progress to the visitor.
const passedEvery = 1000

// passed reports the progress of the read to the visitor at the end of a partition. It reports progress only if the
// visitor has received no data for passedEvery keys.
func (rd *reader) passed() (command.Step, error) {
	looked := rd.visited - rd.silent
	switch {
	case rd.announced:
		rd.silent = rd.visited
		return command.More, nil
	case looked < passedEvery:
		return command.More, nil
	}
	rd.silent = rd.visited
	return refused(command.Passed(rd.v, rd.tok, rd.pk, looked))
}

// visitCurrent reads the partition at the iterator.
func (rd *reader) visitCurrent() (command.Step, error) {
	key := rd.it.Key()
	p, ok := keys.Parse(key)
	if !ok {
		return command.Stop, fmt.Errorf("key %x: %w", key, errDamage)
	}
	rd.seek = append(rd.seek[:0], p.Key...) // begin reads the key from rd.seek after it has built the prefix
	if err := rd.begin(p.Token, rd.seek); err != nil {
		return command.Stop, err
	}
	rd.pk = rd.prefix[p.PrefixLen-len(p.Key):]
	rd.resume = rd.r.AfterKey != nil && !rd.r.AfterPartition && p.Token == rd.r.AfterToken &&
		bytes.Equal(rd.pk, rd.r.AfterKey)
	rd.visited++
	if err := rd.tick(); err != nil {
		return command.Stop, err
	}
	if p.Kind == keys.Deletions {
		rd.s.m.headerSeeks.Add(1)
	}
	if err := rd.load(); err != nil {
		return command.Stop, err
	}
	return rd.partition()
}

// nextTries is the number of keys that an iterator steps over before it seeks.
const nextTries = 4

// leave moves to the first key after the current partition.
func (rd *reader) leave() bool {
	it := rd.it
	if it.Valid() && !rd.r.Reversed {
		for range nextTries {
			if !bytes.HasPrefix(it.Key(), rd.prefix) {
				return true
			}
			if !it.Next() {
				return false
			}
		}
		if !bytes.HasPrefix(it.Key(), rd.prefix) {
			return true
		}
	}
	rd.seek = append(append(rd.seek[:0], rd.prefix...), 0xff)
	return it.SeekGE(rd.seek)
}
