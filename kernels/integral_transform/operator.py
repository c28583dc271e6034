"""The first layer's products of two factors, which for one point are a matrix that takes the other's factors in."""

from torch import Tensor


def of_targets(factors: Tensor, weight: Tensor) -> Tensor:
    """For each target the matrix `(targets, width, features)` that a source's factors are multiplied by.

    Args:
        factors: The targets', `(targets, rank, features)`.
        weight: `(rank, width, features)`.
    """
    matrices = factors[:, 0, None] * weight[0]
    for rank in range(1, len(weight)):
        matrices.addcmul_(factors[:, rank, None], weight[rank])
    return matrices


def add_gradients(dmatrices: Tensor, factors: Tensor, weight: Tensor, dfactors: Tensor, dweight: Tensor) -> None:
    """Set `dfactors` and add to `dweight` what the targets' matrices give."""
    for rank, matrix in enumerate(weight):
        dfactors[:, rank] = (dmatrices * matrix).sum(1)
        dweight[rank] += (dmatrices * factors[:, rank, None]).sum(0)


def of_sources(factors: Tensor, weight: Tensor) -> Tensor:
    """For each source the matrix `(sources, width, rank features)` that a target's factors are multiplied by.

    Args:
        factors: The sources', `(sources, features)`.
        weight: `(rank, width, features)`.
    """
    return (factors[:, None, None] * weight.transpose(0, 1)).flatten(2)


def sources_gradient(dmatrices: Tensor, weight: Tensor) -> Tensor:
    """Gradient by the factors `(sources, features)` of `of_sources`."""
    return (dmatrices.unflatten(2, (len(weight), -1)) * weight.transpose(0, 1)).sum((1, 2))
