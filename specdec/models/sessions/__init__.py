"""Sessions over a model of transformers: the cache of one run, for each thing that a model can do.

tree       CompiledSession   own cache, own forward as one compiled call on a CPU (`kernels`)
           LeanSession       own cache, own forward in torch (`lean`)
           TreeSession       own cache, the model's forward, attention masks along the tree
           SwitchingSession  two of them, around a length at which the rotary embedding changes
sequence   SequenceSession   own cache, the model's own causal attention
           StateSession      the model's own cache and states, which are copied before each forward
ar         SteppingSession   the model's own cache or state, one token at a time
           PlainSession      no cache at all: a forward over everything, for each token
"""
