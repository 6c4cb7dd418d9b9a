"""A delay-gradient control (after TIMELY, Mittal et al. 2015): back off as fast as the round trip grows."""

from pathlib import Path

from tcptrace_lab import simulate
from tcptrace_lab.scenario_file import load


class DelayGradient:
    base_ns = last_ns = least_ns = None  # the smallest round trip ever, of the last round, of this one
    round_end = 0

    def on_rtt(self, now_ns, rtt_ns):
        self.base_ns = min(self.base_ns or rtt_ns, rtt_ns)
        self.least_ns = min(self.least_ns or rtt_ns, rtt_ns)

    def on_ack(self, state):
        if state.snd_una < self.round_end or self.least_ns is None:
            return
        gradient = (self.least_ns - (self.last_ns or self.least_ns)) / self.base_ns
        is_queued = self.least_ns > 1.1 * self.base_ns
        if gradient > 0 and is_queued:
            state.ssthresh = state.cwnd = state.cwnd * (1 - 0.8 * min(gradient, 0.5))
        elif state.cwnd < state.ssthresh and not is_queued:
            state.cwnd *= 2
        elif state.is_cwnd_limited:
            state.cwnd += state.smss
        self.round_end, self.last_ns, self.least_ns = state.snd_nxt, self.least_ns, None

    def on_loss(self, state):
        state.ssthresh = state.flight_size / 2

    on_timeout = on_loss


if __name__ == "__main__":
    scenario = Path(__file__).parents[1] / "captures" / "scenarios" / "reno_10M.toml"
    print(simulate(load(scenario), control=DelayGradient()).summary)
