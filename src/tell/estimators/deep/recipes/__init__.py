"""The recipes by name."""

from __future__ import annotations

from tell.estimators.deep.recipes.distil import DistilRecipe
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.recipe import Recipe
from tell.estimators.deep.recipes.tell_recipe import TellRecipe
from tell.exceptions import ParameterError

RECIPES: dict[str, type[Recipe]] = {
    recipe.name: recipe for recipe in (TellRecipe, DistilRecipe, PaperRecipe)
}


def resolve_recipe(recipe: str | Recipe) -> Recipe:
    """Turn a name or an object into the object.

    >>> resolve_recipe("paper").batch_size
    256
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        names = ", ".join(map(repr, RECIPES))
        raise ParameterError(f"recipe={recipe!r} must be {names} or a recipe object; pass one")
    return RECIPES[recipe]()
