"""What is generated for the chapter on graphs: molecules with their distances, and sets of digits."""

import pytest
import torch

from lecturelib.data import Images, digit_sets, draw_molecules, shortest_paths
from lecturelib.data.sets.molecules import ATOMS, MOST_BONDS, OXYGEN


def test_shortest_paths_counts_steps():
    """A ring of five with a tail of two, and a node that nobody reaches."""
    joined = torch.zeros(8, 8, dtype=torch.bool)
    for one, other in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (4, 5), (5, 6)]:
        joined[one, other] = joined[other, one] = True
    steps = shortest_paths(joined)
    assert steps[0].tolist() == [0, 1, 2, 2, 1, 2, 3, 8]
    assert steps[6].tolist() == [3, 4, 4, 3, 2, 1, 0, 8]
    assert torch.equal(steps, steps.T)


def test_shortest_paths_follow_the_direction_of_edges():
    line = torch.zeros(2, 4, 4, dtype=torch.bool)
    line[:, torch.arange(3), torch.arange(1, 4)] = True
    assert shortest_paths(line)[1].tolist() == [[0, 1, 2, 3], [4, 0, 1, 2], [4, 4, 0, 1], [4, 4, 4, 0]]


def test_molecules_are_connected_with_one_ring_and_few_bonds():
    molecules = draw_molecules(50, num_atoms=14, asked=5, seed=3)
    assert torch.equal(molecules.bonds, molecules.bonds.transpose(1, 2))
    assert molecules.distances.max() < 14
    assert molecules.bonds.sum(dim=2).max() <= MOST_BONDS
    num_bonds = molecules.bonds.sum(dim=(1, 2)) // 2
    assert set(num_bonds.tolist()) <= {13, 14}  # a tree, or a tree and one bond
    assert (num_bonds == 14).float().mean() > 0.8
    assert molecules.atoms.unique().tolist() == list(range(len(ATOMS)))


def test_targets_say_where_oxygen_is():
    molecules = draw_molecules(4, num_atoms=11, asked=6, seed=-2)
    assert molecules.targets.shape == (4, 11, 6)
    for which in range(4):
        for atom in range(11):
            found = {
                int(molecules.distances[which, atom, other])
                for other in range(11)
                if molecules.atoms[which, other] == OXYGEN
            }
            assert molecules.targets[which, atom].tolist() == [float(bond in found) for bond in range(1, 7)]


def test_same_seed_draws_the_same_and_signs_differ():
    one, same, other = (draw_molecules(3, num_atoms=9, asked=2, seed=seed) for seed in (5, 5, -5))
    assert torch.equal(one.bonds, same.bonds)
    assert torch.equal(one.targets, same.targets)
    assert not torch.equal(one.atoms, other.atoms)


@pytest.fixture
def images() -> Images:
    pixels = torch.randint(1, 256, (20, 1, 3, 2), generator=torch.Generator().manual_seed(0))
    return Images(pixels, torch.arange(20) % 10, tuple("0123456789"))


def test_digit_sets_sum_and_maximum_are_of_the_real_digits(images):
    sets = digit_sets(images, 7, sizes=(2, 5), seed=4)
    assert sets.x.shape == (7, 5, 6)
    known = {
        tuple(row): int(label) for row, label in zip(images.scaled().flatten(1).tolist(), images.labels, strict=True)
    }
    for x, length, total, highest in zip(sets.x, sets.lengths, sets.sums, sets.maxima, strict=True):
        labels = [known[tuple(row)] for row in x[:length].tolist()]
        assert (sum(labels), max(labels)) == (total, highest)
        assert not x[length:].any()
    assert sets.lengths.min() >= 2
    assert torch.equal(digit_sets(images, 7, sizes=(2, 5), seed=4).x, sets.x)
    assert not torch.equal(digit_sets(images, 7, sizes=(2, 5), seed=5).x, sets.x)


def test_what_cannot_be_drawn_is_explained(images):
    with pytest.raises(ValueError, match=r"sizes 1 ≤ first ≤ last, got 3 and \(4, 2\)"):
        digit_sets(images, 3, sizes=(4, 2))
    with pytest.raises(ValueError, match="num_atoms 2, got 3, 8 and 1"):
        draw_molecules(3, num_atoms=1)
