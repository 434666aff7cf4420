// What `deno lint` asks of front ends beyond its own rules: short functions, each with its types,
// and no template inside a template: the minifier would take the spaces out of the inner one.
// How a rule is written: https://docs.deno.com/runtime/reference/lint_plugins/

const LONGEST = 60; // lines

/**
 * The block comment that ends right before a function, or nothing.
 * @param {Deno.lint.RuleContext} context
 * @param {Deno.lint.Node} node
 * @returns {string}
 */
function commentOn(context, node) {
  const before = context.sourceCode.getCommentsBefore(node).at(-1);
  return before?.type === "Block" && before.value.startsWith("*") ? before.value : "";
}

/** @type {Deno.lint.Rule} */
const shortFunctions = {
  create(context) {
    /** @param {Deno.lint.Node} node */
    const check = (node) => {
      const lines = context.sourceCode.getText(node).split("\n").length;
      if (lines > LONGEST) {
        context.report({ node, message: `a function of ${lines} lines; ${LONGEST} are the most` });
      }
    };
    return { FunctionDeclaration: check, FunctionExpression: check, ArrowFunctionExpression: check };
  },
};

/** @type {Deno.lint.Rule} */
const typedFunctions = {
  create(context) {
    return {
      FunctionDeclaration(node) {
        const comment = commentOn(context, node), params = comment.match(/@param \{/g) ?? [];
        if (params.length < node.params.length || !comment.includes("@returns {")) {
          context.report({
            node,
            message: "a function without a JSDoc type for each parameter and the result",
          });
        }
      },
    };
  },
};

/** @type {Deno.lint.Rule} */
const flatTemplates = {
  create(context) {
    return {
      "TemplateLiteral TemplateLiteral"(node) {
        context.report({ node, message: "a template inside a template; give the inner one a name" });
      },
    };
  },
};

export default {
  name: "house",
  rules: {
    "flat-templates": flatTemplates,
    "short-functions": shortFunctions,
    "typed-functions": typedFunctions,
  },
};
