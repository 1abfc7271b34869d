"""HTTP as the daemon speaks it, whatever is asked: who may, bodies, refusals, streams, sockets. Knows no engine."""
