#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Records the database of an etcd, and what that etcd reported about it: `record.sh NAME ETCDCTL ETCD...` writes NAME.db.gz and NAME.json
# next to this script. ETCD is a command that starts etcd with the configuration file that is its last argument.
set -euo pipefail

name=$1 etcdctl=$2 output=$(cd "$(dirname "$0")" && pwd)
shift 2
work=$(mktemp -d)
trap 'kill "$etcd" 2>/dev/null || true; rm -rf "$work"' EXIT

cat >"$work/etcd.yaml" <<CONFIG
name: default
data-dir: $work/data
listen-client-urls: http://127.0.0.1:23790
advertise-client-urls: http://127.0.0.1:23790
listen-peer-urls: http://127.0.0.1:23800
initial-advertise-peer-urls: http://127.0.0.1:23800
initial-cluster: default=http://127.0.0.1:23800
CONFIG
"$@" "$work/etcd.yaml" >"$work/log" 2>&1 &
etcd=$!

ctl() { "$etcdctl" --endpoints=http://127.0.0.1:23790 "$@"; }
until ctl endpoint health >/dev/null 2>&1; do sleep 0.2; done

for i in {1..20}; do ctl put "/registry/key-$i" "value $i" >/dev/null; done
for i in {1..10}; do ctl put "/registry/key-$i" "second value $i" >/dev/null; done
ctl del --prefix /registry/key-1 >/dev/null
compact=$(ctl get / -w json | grep -o '"revision":[0-9]*' | cut -d: -f2)
ctl compact --physical "$compact" >/dev/null
for i in {15..25}; do ctl put "/registry/key-$i" "third value $i" >/dev/null; done
ctl del /registry/key-5 >/dev/null
lease=$(ctl lease grant 3600 | grep -o '[0-9a-f]\{16\}')
ctl put --lease="$lease" /registry/leased "value" >/dev/null
printf '\n\nput /registry/a 1\nput /registry/b 2\ndel /registry/key-7\n\n\n' | ctl txn >/dev/null

revision=$(ctl endpoint status -w json | grep -o '"revision":[0-9]*' | head -n 1 | cut -d: -f2)
hash=$(ctl endpoint hashkv --rev "$revision" -w json | grep -o '"hash":[0-9]*' | cut -d: -f2)
keys=$(ctl get "" --prefix --keys-only | grep -c .)
kill "$etcd"
wait "$etcd" || true

printf '{"revision":%s,"compactRevision":%s,"keys":%s,"hash":%s}\n' "$revision" "$compact" "$keys" "$hash" >"$output/$name.json"
gzip -9n <"$work/data/member/snap/db" >"$output/$name.db.gz"
