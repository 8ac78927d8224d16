"""Exercise set 19, decisions: what is asked, how it is tested, and the mistakes it can name."""

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw, draw_ids

rubric = Rubric("19_decisions", title="Decisions")
rubric.exercise("returns", title="What is still to come", minutes=15, difficulty=2, defines=("returns_to_go",))
rubric.exercise(
    "tokens",
    title="Three tokens per step",
    minutes=25,
    difficulty=3,
    defines=("interleave", "at_states", "token_mask"),
)
rubric.exercise("window", title="The last steps", minutes=15, difficulty=2, defines=("last_steps",))
rubric.exercise("pursue", title="Ask for a return", minutes=25, difficulty=3, defines=("pursue",))


# 1. Returns-to-go


def real_steps(rewards, lengths):
    return torch.arange(rewards.shape[1]) < lengths[:, None]  # (B, T)


@rubric.reference
def returns_to_go(rewards, lengths):
    real = real_steps(rewards, lengths)
    earned = torch.where(real, rewards, 0.0)
    return torch.where(real, earned.flip(1).cumsum(1).flip(1), 0.0)


@rubric.mistake(
    "returns_to_go",
    "You sum what has been earned *so far*. A return-to-go looks ahead: this step's reward and all after it.",
)
def earned_so_far(rewards, lengths):
    real = real_steps(rewards, lengths)
    return torch.where(real, torch.where(real, rewards, 0.0).cumsum(1), 0.0)


@rubric.mistake(
    "returns_to_go",
    "Your sums begin one step too late: the reward of a step's own action is still to come when the action is chosen.",
)
def without_its_own(rewards, lengths):
    real = real_steps(rewards, lengths)
    return torch.where(real, returns_to_go(rewards, lengths) - rewards, 0.0)


@rubric.mistake(
    "returns_to_go",
    "Every step has the return of the whole episode. What was earned before a step is not still to come.",
)
def whole_return(rewards, lengths):
    real = real_steps(rewards, lengths)
    whole = torch.where(real, rewards, 0.0).sum(1, keepdim=True)
    return torch.where(real, whole, 0.0)


@rubric.mistake(
    "returns_to_go",
    "Padding is counted: what stands after an episode's length is not a reward. Set it to zero before you sum.",
)
def padding_counted(rewards, lengths):
    return torch.where(real_steps(rewards, lengths), rewards.flip(1).cumsum(1).flip(1), 0.0)


@rubric.mistake(
    "returns_to_go", "You sum nothing that is not real, but the answer is not zero after an episode's end: mask it too."
)
def padding_shown(rewards, lengths):
    return returns_to_go(rewards, lengths) + torch.where(real_steps(rewards, lengths), 0.0, rewards)


@rubric.mistake(
    "returns_to_go",
    "Your return is discounted or averaged: later rewards count less. Here each counts in full.",
)
def averaged(rewards, lengths):
    left = (lengths[:, None] - torch.arange(rewards.shape[1])).clamp(min=1)
    return returns_to_go(rewards, lengths) / left


@rubric.test("returns", points=2, visible=True, hint="From the end: a step's own reward, plus what the next step has.")
def sums_what_is_left(submission, rng):
    rewards, lengths = draw(rng, 4, 6), torch.tensor([6, 3, 1, 5])
    assert_close(submission.returns_to_go(rewards, lengths), returns_to_go(rewards, lengths), what="the returns-to-go")


@rubric.test(
    "returns",
    points=1,
    visible=False,
    topic="no steps, padding",
    hint="An episode of no steps has only zeros.",
)
def sums_the_corner_cases(submission, rng):
    rewards, lengths = draw(rng, 3, 5), torch.tensor([0, 5, 2])
    rewards[2, 2:] = 1e30  # what stands in padding must not reach the sum, not even to be taken off again
    assert_close(submission.returns_to_go(rewards, lengths), returns_to_go(rewards, lengths), what="the returns-to-go")
    alone = draw(rng, 2, 1)
    assert_close(submission.returns_to_go(alone, torch.tensor([1, 0])), alone * torch.tensor([[1.0], [0.0]]))


# 2. Tokens


@rubric.reference
def interleave(returns, states, actions):
    return torch.stack((returns, states, actions), dim=2).flatten(1, 2)


@rubric.reference
def at_states(features):
    return features[:, 1::3]


@rubric.reference
def token_mask(real):
    tokens = real.repeat_interleave(3, dim=1)  # (B, 3K)
    causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
    return causal & tokens[:, None, :]


@rubric.mistake(
    "interleave",
    "All returns stand first, then all states, then all actions. The three tokens of one step stand side by side: "
    "stack them on a new axis *after* the steps, then flatten.",
)
def blocks(returns, states, actions):
    return torch.cat((returns, states, actions), dim=1)


@rubric.mistake("interleave", "The state stands before its return-to-go. The order of a step is return, state, action.")
def state_first(returns, states, actions):
    return interleave(states, returns, actions)


@rubric.mistake("interleave", "The action stands before its state. The order of a step is return, state, action.")
def action_before_state(returns, states, actions):
    return interleave(returns, actions, states)


@rubric.mistake(
    "interleave",
    "Your vectors are torn: numbers of different embeddings stand in one row. Stack on a new axis after the steps, not "
    "after the width, before you flatten.",
)
def torn(returns, states, actions):
    batch, steps, width = returns.shape
    return torch.stack((returns, states, actions), dim=-1).reshape(batch, 3 * steps, width)


@rubric.mistake(
    "at_states",
    "You read the outputs at the *actions*. Such a token has seen the action that is to be predicted.",
)
def at_actions(features):
    return features[:, 2::3]


@rubric.mistake(
    "at_states", "You read the outputs at the returns-to-go. Such a token has not seen the state of its step yet."
)
def at_returns(features):
    return features[:, ::3]


@rubric.mistake(
    "at_states", "You take a block of neighbours. The states are tokens 1, 4, 7, …: every third one, from index 1 on."
)
def middle_block(features):
    steps = features.shape[1] // 3
    return features[:, steps : 2 * steps]


def causal_of(real):
    length = 3 * real.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril()


@rubric.mistake("token_mask", "Padding may be attended in your mask. Columns of tokens that are not real are False.")
def causal_only(real):
    return causal_of(real).expand(len(real), -1, -1)


@rubric.mistake("token_mask", "Later tokens may be attended in your mask: token i sees tokens 0 to i only.")
def padding_only(real):
    tokens = real.repeat_interleave(3, dim=1)
    return tokens[:, None, :].expand(-1, tokens.shape[1], -1)


@rubric.mistake(
    "token_mask",
    "Your mask is causal in *steps*: a state sees the action of its own step, which is the answer. It must be causal "
    "in tokens.",
)
def causal_in_steps(real):
    steps = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
    steps = steps.repeat_interleave(3, dim=0).repeat_interleave(3, dim=1)
    return steps & real.repeat_interleave(3, dim=1)[:, None, :]


@rubric.mistake(
    "token_mask",
    "You repeat the whole mask three times, one copy after the other. Each *step* is three tokens: repeat_interleave.",
)
def tiled(real):
    return causal_of(real) & real.repeat(1, 3)[:, None, :]


@rubric.mistake("token_mask", "The mask is turned: True means may attend, here and in all of lecturelib.")
def turned_mask(real):
    return ~token_mask(real)


@rubric.mistake(
    "token_mask", "You hide the *rows* of padding. What must be hidden are its columns: nobody may look at padding."
)
def rows_hidden(real):
    return causal_of(real) & real.repeat_interleave(3, dim=1)[:, :, None]


@rubric.test("tokens", points=1, visible=True, hint="Stack on a new axis after the steps, then flatten the two.")
def puts_a_step_together(submission, rng):
    given = draw(rng, 2, 4, 5), draw(rng, 2, 4, 5), draw(rng, 2, 4, 5)
    assert_close(submission.interleave(*given), interleave(*given), what="the tokens")


@rubric.test("tokens", points=0.5, visible=True, hint="Every third output, from the second on.")
def reads_at_the_states(submission, rng):
    features = draw(rng, 2, 12, 5)
    assert_close(submission.at_states(features), at_states(features), what="the outputs at the states")


@rubric.test("tokens", points=1.5, visible=True, hint="Causal in tokens, and no column of padding.")
def masks_padding_and_the_future(submission, rng):
    real = torch.tensor([[False, False, True, True], [True, True, True, True], [False, True, True, True]])
    assert_close(submission.token_mask(real), token_mask(real), what="the mask")


@rubric.test("tokens", points=1, visible=False, topic="other sizes, gradients", hint="One step; three; gradients.")
def handles_other_sizes(submission, rng):
    for steps, width in ((1, 3), (3, 1)):
        given = draw(rng, 3, steps, width), draw(rng, 3, steps, width), draw(rng, 3, steps, width)
        upstream = draw(rng, 3, 3 * steps, width)
        got = submission.interleave.gradients(*given, upstream=upstream)
        assert_close(got, rubric.solution.interleave.gradients(*given, upstream=upstream))
        assert_close(submission.at_states(upstream), at_states(upstream))
    real = draw_ids(rng, 0, 2, 4, 5).bool()
    assert_close(submission.token_mask(real), token_mask(real), what="the mask")


# 3. The last steps


@rubric.reference
def last_steps(values, context):
    kept = values[-context:]
    padding = context - len(kept)
    return F.pad(kept, (0, 0, padding, 0)), torch.arange(context) >= padding


@rubric.mistake("last_steps", "You keep the *first* steps of a long history. What matters now are the last ones.")
def first_steps(values, context):
    return last_steps(values[:context], context)


@rubric.mistake(
    "last_steps",
    "The padding stands after the steps. It belongs before them, so that the newest step is always the last row.",
)
def padded_right(values, context):
    kept = values[-context:]
    return F.pad(kept, (0, 0, 0, context - len(kept))), torch.arange(context) < len(kept)


@rubric.mistake("last_steps", "Your second answer is turned: True where a step is real, False where it is padding.")
def padding_marked(values, context):
    kept, real = last_steps(values, context)
    return kept, ~real


@rubric.mistake("last_steps", "The padding must be zeros. You repeat the first step, which never happened twice.")
def repeated(values, context):
    kept, real = last_steps(values, context)
    return torch.where(real[:, None], kept, values[-context:][0]), real


@rubric.mistake(
    "last_steps", "A long history has one step too many or too few in it: keep exactly `context` of its last steps."
)
def one_short(values, context):
    kept, _ = last_steps(values[-(context - 1) :] if context > 1 else values[:0], context)
    return kept, torch.arange(context) >= context - min(len(values), context - 1)


@rubric.test("window", points=1, visible=True, hint="Slice from the end; pad before; mark what is real.")
def keeps_the_last_steps(submission, rng):
    values = draw(rng, 7, 3)
    for context in (4, 10):
        got, want = submission.last_steps(values, context), last_steps(values, context)
        assert_close(got, want, what=("the steps", "what is real"))


@rubric.test(
    "window", points=1, visible=False, topic="exact fit, one step", hint="As many steps as the context; context 1."
)
def keeps_corner_cases(submission, rng):
    values = draw(rng, 5, 2)
    for context, length in ((5, 5), (1, 5), (6, 5), (4, 1), (1, 1)):
        given = values[:length]
        got, want = submission.last_steps(given, context), last_steps(given, context)
        assert_close(got, want, what=("the steps", "what is real"))


# 4. Pursue a return


@rubric.given
class Game:
    """A made-up model and a made-up world for tests. All numbers are quarters, so that sums of them are exact."""

    def __init__(self, rng, states=8, actions=5, *, ends=True):
        self.jumps = draw_ids(rng, 1, 3, states, actions).tolist()
        self.rewards = (draw_ids(rng, 1, 5, states, actions) / 4).tolist()
        self.states, self.actions, self.ends = states, actions, ends

    def model(self, to_go, states, actions):
        """An action that depends on everything it is shown, by where it stands counted from the newest."""
        parts = (([int(4 * value) for value in to_go], 1), (states, 2), (actions, 3))
        return sum((k + i) * int(v) for values, i in parts for k, v in enumerate(reversed(values))) % self.actions

    def move(self, state, action):
        after = state + self.jumps[state][action]
        return after % self.states, self.rewards[state][action], self.ends and after >= self.states


def last_of(to_go, states, actions, context):
    return to_go[-context:], states[-context:], actions[len(to_go[:-context]) :]


def less(asked, reward):
    return asked - reward


def act(model, move, state, asked, context, max_steps, *, rest=less, cut=last_of, stops=True):
    """Pursue in small pieces, so that a mistake can change one: what is still asked, what is shown, when it stops."""
    to_go, states, actions, earned = [asked], [state], [], 0.0
    for _ in range(max_steps):
        actions.append(model(*cut(to_go, states, actions, context)))
        state, reward, over = move(states[-1], actions[-1])
        earned += reward
        if over and stops:
            break
        to_go.append(rest(to_go[-1], reward))
        states.append(state)
    return actions, to_go[: len(actions)], earned


@rubric.reference
def pursue(model, move, start, asked, context, max_steps):
    return act(model, move, start, asked, context, max_steps)


@rubric.mistake(
    "pursue",
    "You ask for the same return at every step. What has been earned is no longer to come: take each reward off.",
)
def never_taken_off(model, move, start, asked, context, max_steps):
    return act(model, move, start, asked, context, max_steps, rest=lambda asked, reward: asked)


@rubric.mistake("pursue", "You *add* each reward to what is asked for. Subtract it: it has been earned.")
def added(model, move, start, asked, context, max_steps):
    return act(model, move, start, asked, context, max_steps, rest=lambda asked, reward: asked + reward)


@rubric.mistake(
    "pursue",
    "The model is shown the whole episode, however long. It may see the last `context` steps only.",
)
def sees_all(model, move, start, asked, context, max_steps):
    def cut(to_go, states, actions, context):
        return to_go, states, actions

    return act(model, move, start, asked, context, max_steps, cut=cut)


@rubric.mistake("pursue", "The model is shown the first steps of the episode. Show it the last `context` ones.")
def sees_the_first(model, move, start, asked, context, max_steps):
    def cut(to_go, states, actions, context):
        return to_go[:context], states[:context], actions[: context - 1]

    return act(model, move, start, asked, context, max_steps, cut=cut)


@rubric.mistake(
    "pursue",
    "The model is shown as many actions as states. The newest state has no action yet: there is one action less.",
)
def too_many_actions(model, move, start, asked, context, max_steps):
    def cut(to_go, states, actions, context):
        return to_go[-context:], states[-context:], actions[-context:]

    return act(model, move, start, asked, context, max_steps, cut=cut)


@rubric.mistake("pursue", "You go on after the episode is over. Stop as soon as `move` says so.")
def goes_on(model, move, start, asked, context, max_steps):
    return act(model, move, start, asked, context, max_steps, stops=False)


@rubric.mistake("pursue", "The last reward is missing from what was earned: count it before you stop.")
def last_reward_lost(model, move, start, asked, context, max_steps):
    rewards = []

    def counting(state, action):
        after, reward, over = move(state, action)
        rewards.append(0.0 if over else reward)
        return after, reward, over

    actions, to_go, _ = act(model, counting, start, asked, context, max_steps)
    return actions, to_go, sum(rewards)


def assert_pursues(submission, game, asked, context, max_steps):
    given = game.model, game.move, 0, asked, context, max_steps
    what = ("the actions", "what was asked", "the sum earned")
    assert_close(submission.pursue(*given), pursue(*given), what=what)


@rubric.test("pursue", points=2, visible=True, hint="Show, choose, move, take off the reward; until it is over.")
def asks_and_takes_off(submission, rng):
    for asked in (2.75, 5.0):
        assert_pursues(submission, Game(rng), asked, context=3, max_steps=10)


@rubric.test(
    "pursue",
    points=1,
    visible=False,
    topic="contexts, no end",
    hint="A context of 1, one longer than the episode; an episode that is cut off.",
)
def asks_with_other_contexts(submission, rng):
    assert_pursues(submission, Game(rng), 0.5, context=1, max_steps=9)
    assert_pursues(submission, Game(rng), -1.25, context=20, max_steps=9)
    assert_pursues(submission, Game(rng, ends=False), 4.0, context=4, max_steps=12)
    assert_pursues(submission, Game(rng), 1.0, context=2, max_steps=1)
