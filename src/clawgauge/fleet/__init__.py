"""A run on more machines than one: whole targets are asked on the node that has them, and one folder is written here.

`node` is the program on the other machine: the ordinary runner, whose records go through a relay. `driver` hands the
work out, checks what comes back and is the only writer of the run. They speak `wire`, over the streams of a program
that reaches the node: ssh, or the bridge to a Ray cluster in `rays`."""
