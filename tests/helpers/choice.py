"""Verification enumerated exhaustively: every draft, test and sample, with their probabilities."""

import numpy as np

from specdec.methods import METHODS, Drafted, Residual
from specdec.methods.residual import parts_of
from tests.helpers.distributions import enumerate_distribution


class DraftByChoice:
    """A drafted tree whose tokens are chosen, in order, when verification reads them.

    Children of a node are drawn from q without replacement. Only the nodes on the verified path matter: nodes
    of one depth share a race, but which node of a depth is verified was decided before that race.
    """

    def __init__(self, pair, topology, prefix, choose):
        self.pair, self.topology, self.prefix, self.choose = pair, topology, prefix, choose
        self.tokens, self.weight = {0: prefix[-1]}, 1.0

    def __getitem__(self, row):
        if row not in self.tokens:
            self.tokens[row] = self._draw(row)
        return self.tokens[row]

    def _draw(self, row):
        siblings = self.topology.children[self.topology.parents[row]]
        taken = [self[sibling] for sibling in siblings[: self.topology.child_indices[row]]]
        q = self.rows(self.pair.draft)[self.topology.parents[row]].exp()
        untaken = [token for token in range(len(q)) if token not in taken]
        token = untaken[self.choose(len(untaken))]
        self.weight *= float(q[token]) / (1 - sum(float(q[t]) for t in taken))
        return token

    def rows(self, model):
        """log p or log q by row of the tree."""

        def row_of(row):
            line = [self[ancestor] for ancestor in self.topology.ancestors(row)[1:]]
            return model.log_table[[*self.prefix, *line][-1]]

        return ByRow(row_of)

    def drafted(self):
        return Drafted(self.topology, self, self.rows(self.pair.draft))


class DrawsByChoice(DraftByChoice):
    """A drafted tree of independent draws, which are chosen when verification reads them. Equal draws share a
    row."""

    def drafted(self):
        return super().drafted()._replace(draws=ByRow(self._drawn))

    def _drawn(self, row):
        q, children, placed = self.rows(self.pair.draft)[row].exp(), self.topology.children[row], {}
        drawn = [self.choose(len(q)) for _ in children]
        for token in drawn:
            self.weight *= float(q[token])
            placed.setdefault(token, children[len(placed)])
        self.tokens.update((child, token) for token, child in placed.items())
        return [placed[token] for token in drawn]


class ByRow(dict):
    """A value for each row, made by `make` when it is first needed."""

    def __init__(self, make):
        self.make = make

    def __bool__(self):
        return True

    def __missing__(self, row):
        self[row] = self.make(row)
        return self[row]


class NoiseByChoice:
    """Uniforms just above 0 or just below 1."""

    def __init__(self, choose):
        self.choose = choose

    def test(self, node, child_index):
        return (1e-300, 1 - 2**-53)[self.choose(2)]

    def last(self, node):
        return 0.5  # the samples are enumerated elsewhere


def distribution_by_choice(method, pair, topology, length, monkeypatch, verify=None):
    """The distribution of the next tokens over all drafts, tests and samples, for as many rounds as the
    tokens need.

    verify: a broken verifier that replaces the method's own.
    """
    verify = verify or METHODS[method].verify
    kind = DrawsByChoice if METHODS[method].independent else DraftByChoice

    def run(choose):
        tokens, weight = [], 1.0

        def sample(self, u):
            nonlocal weight
            weights = np.concatenate(self.weights or parts_of(self.log_p))
            token_id = choose(len(weights))
            weight *= float(weights[token_id] / weights.sum())
            return token_id

        monkeypatch.setattr(Residual, "sample", sample)
        while len(tokens) < length:
            draft = kind(pair, topology, [0, *tokens], choose)
            verdict = verify(draft.drafted(), draft.rows(pair.target), NoiseByChoice(choose))
            weight *= draft.weight
            for attempt in verdict.attempts:
                ratio = attempt.p / attempt.q if attempt.ratio is None else attempt.ratio
                accepts, low = min(1.0, ratio), attempt.u < 0.5
                # a uniform near 1 that is still accepted has no probability of its own
                weight *= accepts if low else 0.0 if attempt.accepted else 1 - accepts
                assert attempt.accepted or not low or accepts == 0
            tokens += [draft[row] for row in verdict.rows] + [verdict.token_id]
        return tuple(tokens[:length]), weight

    return enumerate_distribution(run)
