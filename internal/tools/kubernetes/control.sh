#!/bin/bash
# The control plane of Kubernetes: etcd, and kube-apiserver with the controllers and the scheduler.
# It is started as the first process of its own PID namespace, in a network namespace with the
# address 192.0.2.1, by the test that docs/internals/testing.md describes.
#
#     control.sh STATE BIN
#
# STATE is a directory for all its files, where service-accounts.key is already: a private key in
# PEM. BIN has the programs of Kubernetes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
state=$1 bin=$2
kubeconfig=$here/kubeconfig.yaml key=$state/service-accounts.key

# The user of kubeconfig.yaml may do everything: nobody else reaches this network.
echo 'kubeconfig.yaml,admin,admin,system:masters' > "$state/tokens"

etcd --data-dir "$state/etcd" > "$state/etcd.log" 2>&1 &
"$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --cert-dir "$state/certificates" \
    --advertise-address 192.0.2.1 --token-auth-file "$state/tokens" --authorization-mode Node,RBAC \
    --service-account-issuer https://192.0.2.1 --service-account-key-file "$key" \
    --service-account-signing-key-file "$key" --service-cluster-ip-range 10.96.0.0/16 \
    --kubelet-preferred-address-types InternalIP --allow-privileged > "$state/kube-apiserver.log" 2>&1 &
until "$bin/kubectl" --kubeconfig "$kubeconfig" get --raw /readyz > /dev/null 2>&1; do sleep 0.1; done
for name in kube-controller-manager kube-scheduler; do
    "$bin/$name" --kubeconfig "$kubeconfig" --leader-elect=false > "$state/$name.log" 2>&1 &
done
wait
