"""A rate-based control in the spirit of BBR: pace at the largest delivery rate seen, and a quarter above in turn."""

from collections import deque
from pathlib import Path

from tcptrace_lab import simulate
from tcptrace_lab.scenario_file import load


class RateBased:
    owns_window = True  # recovery leaves cwnd alone
    gains = (1.25, 0.75, 1, 1, 1, 1, 1, 1)

    def start(self, state):
        self.rates = deque([0.0], maxlen=10)  # the largest of each of the last ten round trips
        self.least_ns, self.round_end, self.rounds = float("inf"), 0, 0

    def on_delivery(self, state):  # every ACK, also in recovery
        if state.rtt_ns is not None:
            self.least_ns = min(self.least_ns, state.rtt_ns)
        if state.delivery_rate is None or self.least_ns == float("inf"):
            return
        if not state.is_app_limited:
            self.rates[-1] = max(self.rates[-1], state.delivery_rate)
        if state.delivered >= self.round_end:
            self.round_end, self.rounds = state.delivered + state.flight_size, self.rounds + 1
            self.rates.append(state.delivery_rate)
        gain = 2.0 if self.rounds < 10 else self.gains[self.rounds % len(self.gains)]
        state.pacing_rate = gain * max(self.rates)
        state.cwnd = max(2 * max(self.rates) * self.least_ns / 1e9, 4 * state.smss)

    def on_ack(self, state): ...

    on_loss = on_timeout = on_ack


if __name__ == "__main__":
    scenario = Path(__file__).parents[1] / "captures" / "scenarios" / "reno_10M.toml"
    print(simulate(load(scenario), control=RateBased()).summary)
