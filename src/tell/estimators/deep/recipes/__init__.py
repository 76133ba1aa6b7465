"""The recipes by name."""

from __future__ import annotations

from tell.estimators.deep.recipes.graph import FastRecipe
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.recipe import Recipe
from tell.exceptions import ParameterError

RECIPES: dict[str, type[FastRecipe] | type[PaperRecipe]] = {
    recipe.name: recipe for recipe in (FastRecipe, PaperRecipe)
}


def resolve_recipe(recipe: str | Recipe) -> Recipe:
    """Turn a name or an object into the object.

    >>> resolve_recipe("paper").batch_size
    256
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise ParameterError(
            f"recipe={recipe!r} must be 'fast', 'paper' or a recipe object; pass one"
        )
    return RECIPES[recipe]()
