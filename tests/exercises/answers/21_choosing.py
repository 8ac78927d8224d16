import torch
from torch.nn import functional as F


def fit(layers, inputs, targets, steps=150, rate=0.03):
    network = build(layers, num_symbols=8)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.98))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / 20) * (1 - step / steps)
        chosen = torch.randint(len(inputs), (32,))
        loss = F.cross_entropy(network(inputs[chosen]).flatten(0, 1), targets[chosen].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return describe(layers, network)


# right train: a norm before the answer, and lists for tuples
def train(inputs, targets):
    return fit([["embedding", 8], ["recurrence", 16], ["norm"], ["linear", 4]], inputs, targets)


# right train: weights in double precision, of a module of its own
def train(inputs, targets):
    embed, gru, out = torch.nn.Embedding(8, 8), torch.nn.GRU(8, 16, batch_first=True), torch.nn.Linear(16, 4)
    weights = [*embed.parameters(), *gru.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.03, betas=(0.9, 0.98))
    for step in range(160):
        optimizer.param_groups[0]["lr"] = 0.03 * (1 - step / 160)
        chosen = torch.randint(len(inputs), (32,))
        scores = out(gru(embed(inputs[chosen]))[0])
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), targets[chosen].flatten()).backward()
        optimizer.step()
    named = {"0.weight": embed.weight, "2.weight": out.weight, "2.bias": out.bias}
    named |= {f"1.gru.{name}": weight for name, weight in gru.named_parameters()}
    layers = (("embedding", 8), ("recurrence", 16), ("linear", 4))
    return {"layers": layers, "weights": {name: weight.detach().double() for name, weight in named.items()}}


# wrong train: the baseline
# hint: the first mark is 0.83
def train(inputs, targets):
    return baseline(inputs, targets)


# wrong train: not trained at all
# hint: Which of the three ways to mix tokens can keep a state?
def train(inputs, targets):
    return fit([("embedding", 8), ("recurrence", 16), ("linear", 4)], inputs, targets, steps=0)


# wrong train: too many parameters
# hint: parameters; at most 1,500 are allowed
def train(inputs, targets):
    return fit([("embedding", 8), ("recurrence", 32), ("linear", 4)], inputs, targets, steps=1)


# wrong train: too many operations
# hint: operations for a sequence; at most 48,000 are allowed
def train(inputs, targets):
    return fit([("embedding", 12), ("attention", 2), ("attention", 2), ("linear", 4)], inputs, targets, steps=1)


# wrong train: the network itself
# hint: return a dict of layers and weights
def train(inputs, targets):
    return build([("embedding", 8), ("linear", 4)], num_symbols=8)


# wrong train: a layer that is not there
# hint: a layer is one of embedding
def train(inputs, targets):
    return {"layers": [("embedding", 8), ("lstm", 16), ("linear", 4)], "weights": {}}


# wrong train: weights of other layers
# hint: are these the weights of these layers?
def train(inputs, targets):
    answer = fit([("embedding", 8), ("recurrence", 16), ("linear", 4)], inputs, targets, steps=1)
    return {"layers": [("embedding", 8), ("convolution", 16, 2, 1), ("linear", 4)], "weights": answer["weights"]}


# wrong train: weights of another width
# hint: should be real numbers of shape (4, 12)
def train(inputs, targets):
    answer = fit([("embedding", 8), ("linear", 4)], inputs, targets, steps=1)
    return {
        "layers": [("embedding", 12), ("linear", 4)],
        "weights": answer["weights"] | {"0.weight": torch.zeros(8, 12)},
    }


# wrong train: diverged
# hint: did the training diverge?
def train(inputs, targets):
    answer = fit([("embedding", 8), ("linear", 4)], inputs, targets, steps=1)
    answer["weights"]["1.bias"] = torch.full((4,), float("nan"))
    return answer


# wrong train: too narrow an end
# hint: there are 4 classes
def train(inputs, targets):
    return fit([("embedding", 8), ("linear", 8)], inputs, targets, steps=1)


# wrong train: attention without positions
# hint: 500 sequences that it has not seen
def train(inputs, targets):
    return fit([("embedding", 12), ("residual", [("attention", 2)]), ("linear", 4)], inputs, targets, steps=60)
