"""A run on other machines: whole targets are asked on the node that has them, and one folder is
written here.

`node` is the program on the other machine: the ordinary runner, whose records go through a relay.
`nodes` finds the machines and what they have, `driver` hands the work out, checks what comes back
and is the only writer of the run; a `load` is made by several nodes together. They send each other
the messages of `wire`, within the `limits`, over a `connection`: the streams of a program that
reaches the node, ssh or the bridge to a Ray cluster (`ray_bridge`).
"""
