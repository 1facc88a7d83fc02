// SPDX-License-Identifier: Apache-2.0

package catalog

func fillSessions(b *builder) {
	if b.info.Diagnostics == nil {
		return
	}
	all := b.info.Diagnostics.BusiestSessions(b.ctx)
	for i := range all.Sessions {
		s := &all.Sessions[i]
		id, ok := b.nodeID(s.Node)
		if !ok {
			continue
		}
		v := values{"node": id, "id": text(s.ID), "address": text(s.Address), "state": text(s.State),
			"user": textOrNull(s.User), "driver_name": textOrNull(s.Driver),
			"driver_version": textOrNull(s.DriverVersion), "protocol_version": int32Value(int32(s.Protocol)),
			"keyspace_name": textOrNull(s.Keyspace), "tls": boolean(s.TLS),
			"requests_under_way": int32Value(int32(s.ActiveRequests)), "requests": bigint(s.Requests),
			"since": instant(s.Since), "statement": textOrNull(s.Statement)}
		if s.Millis > 0 {
			v["statement_ms"] = double(s.Millis)
		}
		b.add(v)
	}
}
