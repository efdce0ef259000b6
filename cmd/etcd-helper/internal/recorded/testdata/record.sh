#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Records what an etcd and its sidecar write, and what that etcd reported: `record.sh NAME ETCDCTL ETCDBRCTL ETCD...` writes NAME.tar.gz and
# NAME.json next to this script. ETCD is a command that starts etcd with the configuration file that is its last argument. The archive has
# four directories:
#
#   store     two full snapshots of a single member, with the delta snapshots of each
#   restored  what the sidecar restored from the first full snapshot and its delta snapshots
#   killed    the data directory of that member after SIGKILL
#   survivor  the data directory of the leader of three members, after the others and then the leader ended with SIGKILL
#
# The zeros at the end of the files of the write-ahead log are omitted. The program needs jq.
set -euo pipefail

name=$1 etcdctl=$2 etcdbrctl=$3 output=$(cd "$(dirname "$0")" && pwd)
shift 3
etcd=("$@")
work=$(mktemp -d)
declare -A pids
trap 'kill -9 "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

# start NAME PORT DIRECTORY CLUSTER starts a member. It commits to its database only each hour, or when something reads the database.
start() {
	cat >"$work/$1.yaml" <<-CONFIG
		name: $1
		data-dir: $3
		snapshot-count: 40
		backend-batch-interval: 3600000000000
		listen-client-urls: http://127.0.0.1:$2
		advertise-client-urls: http://127.0.0.1:$2
		listen-peer-urls: http://127.0.0.1:$(($2 + 1))
		initial-advertise-peer-urls: http://127.0.0.1:$(($2 + 1))
		initial-cluster: $4
	CONFIG
	"${etcd[@]}" "$work/$1.yaml" >>"$work/$1.log" 2>&1 &
	pids[$1]=$!
	disown
}
stop() { kill -"$1" "${pids[$2]}" && while kill -0 "${pids[$2]}" 2>/dev/null; do sleep 0.1; done; }
ctl() { "$etcdctl" --endpoints="http://127.0.0.1:$port" "$@"; }
put() { ctl put "$@" >/dev/null; }
revision() { ctl get / -w json | jq .header.revision; }
wait_for() { until "$@" >/dev/null 2>&1; do sleep 0.1; done; }

# point REVISION prints what the member reports about the revision.
point() {
	# jq reads numbers as floating-point numbers. The IDs of leases are too large for them.
	jq -n --argjson revision "$1" --argjson hash "$(ctl endpoint hashkv --rev "$1" -w json | jq '.[0].HashKV')" \
		--argjson range "$(ctl get "" --prefix --rev "$1" -w json | sed 's/"lease":\([0-9]*\)/"lease":"\1"/g')" \
		'{revision: $revision, compactRevision: ([$hash.compact_revision // 0, 0] | max), hash: $hash.hash, keys: $range.kvs}'
}
# sidecar starts the sidecar, which creates a full snapshot, and then a delta snapshot each second.
sidecar() {
	HOME=$work "$etcdbrctl" snapshot --storage-provider=Local --store-container=store --store-prefix=etcd --endpoints="http://127.0.0.1:$port" \
		--delta-snapshot-period=1s --schedule='0 0 1 1 *' --defragmentation-schedule='0 0 1 1 *' --snapstore-temp-directory="$work" >>"$work/sidecar.log" 2>&1 &
	pids[sidecar]=$!
	disown
}
is_stored() { compgen -G "$work/store/etcd/v2/$1-*-$(printf %08d "$2")-*"; }
lease() { ctl lease grant "$1" | grep -o '[0-9a-f]\{16\}'; }

port=23790
start default $port "$work/data" default=http://127.0.0.1:23791
wait_for ctl endpoint health

put --lease="$(lease 10)" /registry/masterleases/10.0.0.1 value
put --lease="$(lease 3600)" /registry/leased value
for i in {1..12}; do put "/registry/pods/key-$i" "value $i"; done
ctl del --prefix /registry/pods/key-1 >/dev/null
put /registry/secrets/binary "$(printf '\001\377\002')"
sidecar
wait_for is_stored Full "$(revision)"
for i in {5..14}; do put "/registry/pods/key-$i" "second value $i"; done
printf '\nput /registry/a 1\nput /registry/b 2\ndel /registry/pods --prefix\nput /registry/c 3\n\n\n' | ctl txn >/dev/null
wait_for is_stored Incr "$(revision)"
first=$(point "$(revision)")

sleep 2
before=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ) before_point=$(point "$(revision)")
sleep 1
put /registry/created later
put /registry/a changed
# The key of the lease disappears, which is an event of its own.
until [[ -z $(ctl get /registry/masterleases/10.0.0.1) ]]; do sleep 0.2; done
for i in {1..6}; do put "/registry/pods/key-$i" "third value $i"; done
ctl del /registry/pods/key-3 >/dev/null
middle=$(point "$(revision)")
for i in {4..8}; do put "/registry/pods/key-$i" "fourth value $i"; done
wait_for is_stored Incr "$(revision)"
# Deletions have the compact revision and the last revision.
ctl del /registry/pods/key-4 >/dev/null
ctl compact --physical "$(revision)" >/dev/null
put /registry/pods/key-4 "created again"
put --lease="$(lease 3600)" /registry/leased "second value"
ctl del /registry/pods/key-5 >/dev/null
wait_for is_stored Incr "$(revision)"
compacted=$(point "$(revision)")

stop TERM sidecar
HOME=$work "$etcdbrctl" restore --storage-provider=Local --store-container=store --store-prefix=etcd --snapstore-temp-directory="$work" \
	--restoration-temp-snapshots-dir="$work/temp" --data-dir="$work/restored" >>"$work/sidecar.log" 2>&1
put /registry/pods/key-1 "fifth value"
sidecar
wait_for is_stored Full "$(revision)"
for i in {1..4}; do put "/registry/configmaps/key-$i" "$(head -c 300 /dev/zero | tr '\0' x)"; done
wait_for is_stored Incr "$(revision)"
last=$(point "$(revision)")
stop TERM sidecar

# Only the write-ahead log contains these writes. One of them changes nothing. etcd commits its database at once when it compacts it or revokes a lease.
for i in {1..3}; do put "/registry/configmaps/key-$i" "last value $i"; done
put --lease="$(lease 3600)" /registry/leased "third value"
printf '\nput /registry/a 4\ndel /registry/b\nput /registry/d 5\n\n\n' | ctl txn >/dev/null
ctl del /registry/configmaps/key-4 >/dev/null
ctl del /registry/missing >/dev/null
put /registry/pods/key-1 "last value"
stop KILL default
cp -r "$work/data" "$work/killed"
start default $port "$work/data" default=http://127.0.0.1:23791
wait_for ctl endpoint health
killed=$(point "$(revision)")
stop KILL default

cluster=m0=http://127.0.0.1:23811,m1=http://127.0.0.1:23821,m2=http://127.0.0.1:23831
for i in 0 1 2; do start m$i "238$((i + 1))0" "$work/m$i" $cluster; done
for i in 0 1 2; do port=238$((i + 1))0 && wait_for ctl endpoint health; done
for i in {1..60}; do put "/registry/pods/key-$i" "value $i"; done
ctl del /registry/pods/key-7 >/dev/null
for i in 0 1 2; do
	port=238$((i + 1))0
	status=$(ctl endpoint status -w json | jq '.[0].Status')
	[[ $(jq .leader <<<"$status") == $(jq .header.member_id <<<"$status") ]] && leader=$i
done
port=238$((leader + 1))0
for i in {61..70}; do put "/registry/pods/key-$i" "value $i"; done
acknowledged=$(revision)
for i in 0 1 2; do [[ $i == "$leader" ]] || stop KILL m$i; done
# The leader appends this write to its log. No quorum confirms it.
ctl --command-timeout=700ms put /registry/unacknowledged value >/dev/null 2>&1 || true
hash=$(ctl endpoint hashkv --rev "$acknowledged" -w json | jq '.[0].HashKV.hash')
stop KILL m$leader

mkdir "$work/archive"
rm -r "$work/restored/member/wal"
mv "$work/store" "$work/killed" "$work/restored" "$work/archive"
mv "$work/m$leader" "$work/archive/survivor"
find "$work/archive" -name '*.tmp' -delete
find "$work/archive" -name '*.wal' -exec sed -i 's/\x00*$//' {} +
tar -C "$work/archive" --sort=name --owner=0 --group=0 --mtime=@0 -c . | gzip -9n >"$output/$name.tar.gz"
jq -n --argjson first "$first" --arg before "$before" --argjson before_point "$before_point" --argjson middle "$middle" --argjson compacted "$compacted" --argjson last "$last" \
	--argjson killed "$killed" --argjson acknowledged "$acknowledged" --argjson hash "$hash" '{
	points: {first: $first, beforeTime: ($before_point + {time: $before}), middle: $middle, compacted: $compacted, last: $last},
	killed: $killed, survivor: {revision: $acknowledged, hash: $hash}
}' >"$output/$name.json"
