#!/bin/sh
# Open vSwitch's userspace datapath between two ports: what comes in on one leaves by the other.
# openvswitch.sh BIN SCHEMA CPU FILE-PREFIX PLUGIN DEVICE DEVICE, run by UNiS where it shall live.
#
# It has a database of its own, in a new folder below the one it is started in, and nothing of the
# machine's. This process becomes ovs-vswitchd, so that UNiS knows the one that polls; the others
# are its children, and go with it. The network devices that it makes are in a namespace of its own.
set -eu
bin=$1 schema=$2 cpu=$3 prefix=$4 plugin=$5 first=$6 second=$7
home=$(mktemp -d "$PWD/ovs-XXXXXX")
export OVS_RUNDIR="$home" OVS_LOGDIR="$home" OVS_DBDIR="$home" OVS_SYSCONFDIR="$home"
database="unix:$home/db.sock"

"$bin/ovsdb-tool" create "$home/conf.db" "$schema"
setpriv --pdeathsig TERM "$bin/ovsdb-server" "$home/conf.db" --remote="p$database" \
  --unixctl="$home/db.ctl" &
until [ -S "$home/db.sock" ]; do kill -0 $! && sleep 0.05; done

# One thread that polls, so two queues: Open vSwitch sends by one for each such thread and one for
# all else, and a memif has as many each way. No MAC addresses are learned: two flows say it all.
"$bin/ovs-vsctl" --db="$database" --no-wait \
  -- init \
  -- set Open_vSwitch . other_config:dpdk-init=true \
  "other_config:dpdk-extra=\"-d $plugin --file-prefix $prefix --no-pci --iova-mode=va --no-telemetry\"" \
  "other_config:pmd-cpu-mask=$(printf '0x%x' $((1 << cpu)))" \
  other_config:per-port-memory=true \
  -- add-br bridge -- set Bridge bridge datapath_type=netdev fail_mode=secure \
  -- add-port bridge first -- set Interface first type=dpdk ofport_request=1 \
  "options:dpdk-devargs=\"$first\"" options:n_rxq=2 options:n_rxq_desc=1024 options:n_txq_desc=1024 \
  -- add-port bridge second -- set Interface second type=dpdk ofport_request=2 \
  "options:dpdk-devargs=\"$second\"" options:n_rxq=2 options:n_rxq_desc=1024 options:n_txq_desc=1024
flow() {
  until "$bin/ovs-ofctl" add-flow "unix:$home/bridge.mgmt" "$1" 2> /dev/null; do
    kill -0 $$ && sleep 0.1  # $$ is ovs-vswitchd
  done
}
{ flow in_port=1,actions=output:2; flow in_port=2,actions=output:1; } &
exec unshare --net "$bin/ovs-vswitchd-dpdk" "$database" --unixctl="$home/vswitchd.ctl"
