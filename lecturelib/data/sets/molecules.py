"""Graphs like small molecules, with a question about atoms that are some bonds away. Generated, not measured."""

from dataclasses import dataclass

import torch
from torch import Tensor

ATOMS = ("C", "N", "O", "S")
SHARES = (0.5, 0.2, 0.2, 0.1)  # how often each is drawn
OXYGEN = ATOMS.index("O")
MOST_BONDS = 4  # of an atom
RECENT = 4  # a new atom is bound to one of this many before it, which makes long molecules


@dataclass(frozen=True)
class Molecules:
    """Atoms, bonds, and what is asked of each atom.

    Shapes: atoms (B, N) numbers of ATOMS; bonds (B, N, N) boolean and symmetric; distances (B, N, N), the fewest bonds
    between two atoms; targets (B, N, K) in {0, 1}: is there an oxygen at exactly 1, 2, … K bonds?
    """

    atoms: Tensor
    bonds: Tensor
    distances: Tensor
    targets: Tensor


def shortest_paths(adjacency: Tensor) -> Tensor:
    """The fewest steps from each node to each other, N where there is no way: one more step at a time.

    Shapes: boolean (..., N, N) -> integers (..., N, N)
    """
    num_nodes = adjacency.shape[-1]
    reached = torch.eye(num_nodes, dtype=torch.bool, device=adjacency.device).expand_as(adjacency)
    steps = (~reached).long() * num_nodes
    for step in range(1, num_nodes):
        wider = (reached.float() @ adjacency.float() > 0) | reached
        steps = torch.where(wider & ~reached, step, steps)
        if torch.equal(wider, reached):
            break
        reached = wider
    return steps


def draw_molecules(count: int, *, num_atoms: int = 18, asked: int = 8, seed: int = 0) -> Molecules:
    """Draw chains with branches, each closed to one ring where two atoms are four or five bonds apart.

    Args:
        count: how many
        num_atoms: of each
        asked: K, the largest number of bonds that is asked about
        seed: which ones; test with seeds that training never reaches, negative ones say
    """
    if min(count, asked) < 1 or num_atoms < 2:
        raise ValueError(f"count and asked must be at least 1 and num_atoms 2, got {count}, {asked} and {num_atoms}")
    generator = torch.Generator().manual_seed(2 * abs(seed) + (seed < 0))
    rows = torch.arange(count)
    bonds = torch.zeros(count, num_atoms, num_atoms, dtype=torch.bool)
    for atom in range(1, num_atoms):
        first = max(0, atom - RECENT)
        free = (bonds[:, first:atom].sum(dim=2) < MOST_BONDS).float()  # (B, candidates)
        partner = first + torch.multinomial(free, 1, generator=generator).squeeze(1)  # (B,)
        bonds[rows, atom, partner] = bonds[rows, partner, atom] = True
    distances = shortest_paths(bonds)
    free = bonds.sum(dim=2) < MOST_BONDS  # (B, N)
    apart = (distances == 4) | (distances == 5)
    closing = (apart & free[:, None] & free[:, :, None]).triu(1).flatten(1).float()
    closing[:, -1] += (closing.sum(dim=1) == 0).float()  # none to close: the last atom with itself, undone below
    pair = torch.multinomial(closing, 1, generator=generator).squeeze(1)
    one, other = pair // num_atoms, pair % num_atoms
    bonds[rows, one, other] = bonds[rows, other, one] = one != other
    distances = shortest_paths(bonds)
    atoms = torch.multinomial(torch.tensor(SHARES), count * num_atoms, replacement=True, generator=generator)
    atoms = atoms.view(count, num_atoms)
    is_oxygen = (atoms == OXYGEN)[:, None, :]  # (B, 1, N)
    targets = [((distances == bond) & is_oxygen).any(dim=2) for bond in range(1, asked + 1)]
    return Molecules(atoms, bonds, distances, torch.stack(targets, dim=2).float())
