"""TCP Vegas (Brakmo and Peterson 1995): keep two to four segments waiting, judged once per round trip."""

from pathlib import Path

from tcptrace_lab import simulate
from tcptrace_lab.scenario_file import load


class Vegas:
    base_ns = least_ns = float("inf")  # the smallest round trip ever, and of this round
    round_end = 0

    def on_rtt(self, now_ns, rtt_ns):
        self.base_ns = min(self.base_ns, rtt_ns)
        self.least_ns = min(self.least_ns, rtt_ns)

    def on_ack(self, state):
        if state.snd_una < self.round_end or self.least_ns == float("inf"):
            return
        waiting = state.cwnd / state.smss * (1 - self.base_ns / self.least_ns)
        if state.cwnd < state.ssthresh and waiting < 1:
            state.cwnd *= 1.5  # doubling every other round trip, on the average
        elif waiting < 2:
            state.cwnd += state.smss
        elif waiting > 4:
            state.cwnd -= state.smss
        if waiting > 1:
            state.ssthresh = min(state.ssthresh, state.cwnd)
        self.round_end, self.least_ns = state.snd_nxt, float("inf")

    def on_loss(self, state):
        state.ssthresh = state.flight_size / 2

    on_timeout = on_loss


if __name__ == "__main__":
    scenario = Path(__file__).parents[1] / "captures" / "scenarios" / "reno_10M.toml"
    print(simulate(load(scenario), control=Vegas()).summary)
