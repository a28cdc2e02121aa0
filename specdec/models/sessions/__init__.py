"""Classes of sessions over a model of transformers. A session holds the cache of one run.

The first column is the most general draft that a session can score: any tree, a sequence, or none (ar).

tree       CompiledSession   own cache, own forward pass as one compiled call on a CPU (`kernels`)
           LeanSession       own cache, own forward pass in torch (`lean`)
           TreeSession       own cache, the model's forward pass, attention masks along the tree
           SwitchingSession  two TreeSessions, below and above a length at which rotary angles change
sequence   SequenceSession   own cache, the model's own causal attention
           StateSession      the model's own cache and states, which are copied before each forward pass
ar         SteppingSession   a StateSession that reads one token at a time
           PlainSession      no cache at all: for each token a forward pass over the whole text
"""
