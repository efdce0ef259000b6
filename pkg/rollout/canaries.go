// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

// canaries are the canaries of a change, and the Etcds that wait and can be one, as soon as they are healthy.
type canaries struct {
	passed, running int
	failed          tally
	// open are the canaries that may still pass, and the Etcds that can be one.
	open tally
	// tried are the namespaces with a canary. It may have left the change meanwhile.
	tried map[string]bool
}

func newCanaries() *canaries { return &canaries{tried: map[string]bool{}} }

// countWaiting counts an Etcd that waits. isFit is true if it can be a canary.
func (c *canaries) countWaiting(etcd *Cluster, isFit bool) {
	if isFit {
		c.open.add(etcd.namespace(), 1)
	}
	if etcd.Tried {
		c.tried[etcd.namespace()] = true
	}
}

// isOpen is true while a canary may still pass in a namespace in which none has failed.
func (c *canaries) isOpen() bool {
	open := c.open.total
	for namespace := range c.failed.in {
		open -= c.open.in[namespace]
	}

	return open > 0
}

// isStopped is true after canaries in two namespaces have failed. It is also true after one has failed if no other namespace has one that may pass.
func (c *canaries) isStopped() bool {
	return len(c.failed.in) > 1 || len(c.failed.in) == 1 && !c.isOpen()
}

// tally counts Etcds by namespace. The zero value is empty.
type tally struct {
	total int
	// in has no zeros.
	in map[string]int
}

func (t *tally) add(namespace string, count int) {
	if t.in == nil {
		t.in = map[string]int{}
	}
	t.total += count
	t.in[namespace] += count
	if t.in[namespace] == 0 {
		delete(t.in, namespace)
	}
}

// countFor is the number that counts for an Etcd in a namespace. If all are in one other namespace, none does: its authors may have caused them.
func (t *tally) countFor(namespace string) int {
	if len(t.in) == 1 && t.in[namespace] == 0 {
		return 0
	}

	return t.total
}
