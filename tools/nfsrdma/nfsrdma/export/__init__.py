# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma export``: metrics of both roles for Prometheus and other readers of OpenMetrics.

- `metrics`: families of metrics, and their two text formats.
- `transports`: connections, and transports without one.
- `reconnects`: new connections by the reason of the loss before.
- `client`: counters of mounts.
- `server`: counters of the server, its listeners and its threads.
- `latency`: histograms from trace events.
- `collect`: all of these.
- `serve`: the HTTP server.
- `command`: the subcommand.
"""
